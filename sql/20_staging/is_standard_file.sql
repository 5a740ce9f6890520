-- Whether a Python function is one of the standard library, by its file. PyTorch names files
-- relative to where they were imported from. Left out are modules whose names programs use for
-- their own files (`code`, `profile`, `test`, `tokenize`).
CREATE MACRO staging.is_standard_file(
    -- Name of the event: `copy.py(128): deepcopy`.
    event_name
) AS (
    regexp_matches(
        event_name,
        '^(.*/lib/python3\.[0-9]+/)?('
        || 'abc|argparse|ast|asyncio|base64|bisect|codecs|collections|_collections_abc|'
        || 'concurrent|configparser|contextlib|contextvars|copy|copyreg|csv|ctypes|'
        || 'dataclasses|datetime|decimal|difflib|email|encodings|enum|fnmatch|functools|'
        || 'genericpath|glob|gzip|hashlib|heapq|http|importlib|inspect|json|linecache|'
        || 'logging|lzma|multiprocessing|numbers|operator|os|pathlib|pickle|pkgutil|'
        || 'posixpath|pprint|queue|random|re|reprlib|runpy|selectors|shutil|signal|'
        || 'socket|socketserver|ssl|string|struct|subprocess|tarfile|tempfile|textwrap|'
        || 'threading|traceback|typing|unittest|urllib|uuid|warnings|weakref|'
        || '_weakrefset|xml|zipfile'
        || ')(/[^(]*)?\.py\('
    )
);
