"""Archives as Debian ships them, put to work: each against the same program that gcc made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel import Session

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import needs

pytestmark = needs("gcc")

_FOLDER = Path("/usr/lib/x86_64-linux-gnu")

#: By library: a C function that does real work with it and prints what comes of it.
_JOBS = {
    "z": """
#include <zlib.h>
int job(void) {
  static unsigned char in[200000], out[250000], again[200000];
  for (int i = 0; i < 200000; i++) in[i] = (unsigned char)(i * i >> 7);
  uLongf size = sizeof out, back = sizeof again;
  int a = compress2(out, &size, in, sizeof in, 9), b = uncompress(again, &back, out, size);
  printf("%d %d %lu %lu %d %lx %s\\n", a, b, size, back, memcmp(in, again, sizeof in),
         crc32(0, out, size), zlibVersion());
  return 0;
}""",
    "bz2": """
#include <bzlib.h>
int job(void) {
  static char in[300000], out[400000], again[300000];
  for (int i = 0; i < 300000; i++) in[i] = (char)(i % 251 * (i >> 9));
  unsigned size = sizeof out, back = sizeof again;
  int a = BZ2_bzBuffToBuffCompress(out, &size, in, sizeof in, 9, 4, 0);
  int b = BZ2_bzBuffToBuffDecompress(again, &back, out, size, 0, 0);
  printf("%d %d %u %u %d\\n", a, b, size, back, memcmp(in, again, sizeof in));
  return 0;
}""",
    "lzma": """
#include <lzma.h>
int job(void) {
  static uint8_t in[100000], out[200000], again[100000];
  for (int i = 0; i < 100000; i++) in[i] = (uint8_t)(i / 3 ^ i >> 8);
  size_t size = 0, from = 0, back = 0; uint64_t limit = UINT64_MAX;
  int a = lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, 0, in, sizeof in, out, &size, sizeof out);
  int b = lzma_stream_buffer_decode(&limit, 0, 0, out, &from, size, again, &back, sizeof again);
  printf("%d %d %zu %zu %d\\n", a, b, size, back, memcmp(in, again, sizeof in));
  return 0;
}""",
    "zstd": """
#include <zstd.h>
int job(void) {
  static char in[300000], out[400000], again[300000];
  for (int i = 0; i < 300000; i++) in[i] = (char)(i * 7 % 300 + (i >> 12));
  for (int level = 1; level < 20; level += 6) {
    size_t size = ZSTD_compress(out, sizeof out, in, sizeof in, level);
    size_t back = ZSTD_decompress(again, sizeof again, out, size);
    printf("%zu %zu %d\\n", size, back, memcmp(in, again, sizeof in));
  }
  return 0;
}""",
    "sqlite3": """
#include <sqlite3.h>
static int row(void *p, int n, char **v, char **names) {
  for (int i = 0; i < n; i++) printf("%s=%s ", names[i], v[i] ? v[i] : "null");
  puts("");
  return 0;
}
int job(void) {
  sqlite3 *db; char *error = 0;
  int a = sqlite3_open(":memory:", &db);
  int b = sqlite3_exec(db,
    "create table t(n integer primary key, w text, x real);"
    "with recursive c(i) as (select 1 union all select i+1 from c where i < 5000)"
    " insert into t select i, printf('word%d', i*i%97), i/7.0 from c;"
    "create index ti on t(w);"
    "select w, count(*), round(sum(x), 3) from t group by w order by 2 desc, 1 limit 5;"
    "select json_group_array(n) as j from t where w like 'word1_' and n < 60;"
    "pragma integrity_check;", row, 0, &error);
  printf("%d %d %s %s\\n", a, b, error ? error : "-", sqlite3_libversion());
  return sqlite3_close(db);
}""",
    "lua5.4": """
#include <lua5.4/lua.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
int job(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  int a = luaL_dostring(L,
    "local t = {} for i = 1, 2000 do t[i] = (i * 7919) % 2003 end table.sort(t)"
    " local s = {} for w in ('the quick brown fox'):gmatch('%a+') do s[#s+1] = w:upper() end"
    " print(t[1], t[1000], t[2000], table.concat(s, ','), string.format('%.3f', math.sqrt(2)))"
    " print(pcall(function() error({code = 7}) end)) io.stderr:write('on stderr\\\\n')"
    " local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)"
    " print(c(), c(), c(), #string.rep('x', 1e6), 7 // 2, 1 << 40)");
  printf("%d\\n", a);
  lua_close(L);
  return a;
}""",
}


@pytest.mark.parametrize("name", _JOBS)
def test_a_job_as_gcc_does_it(name, tmp_path):
    archive = _FOLDER / f"lib{name}.a"
    if not archive.exists():
        pytest.skip(f"{archive} is not installed")
    source = "#include <stdio.h>\n#include <string.h>\n" + _JOBS[name]
    (tmp_path / "job.c").write_text(source)
    (tmp_path / "main.c").write_text("int job(void); int main(void) { return job(); }")
    for command in (
        ["gcc", "-O1", "-c", "job.c", "-o", "job.o"],
        ["gcc", "main.c", "job.o", str(archive), "-lm", "-lpthread", "-ldl", "-o", "native"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    native = subprocess.run([str(tmp_path / "native")], capture_output=True, text=True, check=True)
    with Session() as s:
        s.link(str(archive))
        s.link(str(tmp_path / "job.o"))
        s.run("declare i32 @job()")
        done = s.run("@job()")
        theirs, ours = (  # an address is told of a table
            [line for line in text.splitlines() if "table: 0x" not in line]
            for text in (native.stdout, done.stdout)
        )
        assert ours == theirs
        assert done.stderr == native.stderr
        assert done.value == 0
        s.check()
        while s.cells:
            s.undo()
        s.check()
