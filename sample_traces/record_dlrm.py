"""Record `dlrm_cpu/` anew: training steps of a small DLRM on this machine's CPU."""

from pathlib import Path

from tracedb.record import DLRM_SAMPLE, record_dlrm

if __name__ == "__main__":
    folder = Path(__file__).with_name("dlrm_cpu")
    # Steps 8 to 12: as text, #10 sorts before #8, which a reader has to get right.
    print(record_dlrm(folder, DLRM_SAMPLE, batch_size=512, warmup=8, steps=5))
