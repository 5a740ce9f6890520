"""Record `ddp_gloo/` anew: the small DLRM on two ranks of this machine, over gloo."""

from pathlib import Path

from tracedb.record import DLRM_SAMPLE, record_ddp

if __name__ == "__main__":
    folder = Path(__file__).with_name("ddp_gloo")
    for rank in record_ddp(folder, DLRM_SAMPLE, world_size=2, warmup=8, steps=4):
        print(rank)
