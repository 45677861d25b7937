//! Ten real commands, each a script for `sh` that leaves nothing behind.

/// Begin of a script with a directory of its own, which is removed at its end.
macro_rules! in_a_directory {
    ($script:literal) => {
        concat!("set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; cd $d; ", $script)
    };
}

/// Name and script of each.
pub const TEN: [(&str, &str); 10] = [
    ("tar", "tar cf /dev/null /usr/share/perl"),
    ("gzip", "gzip -9 < /usr/bin/git > /dev/null"),
    (
        "sqlite3",
        "sqlite3 :memory: 'create table t (a, b); with recursive n (i) as (select 1 union all \
         select i + 1 from n where i < 20000) insert into t select i, i * i from n; select sum(b) \
         from t' > /dev/null",
    ),
    (
        "git status",
        in_a_directory!(
            "git init -q .; cp -rp /usr/share/perl .; git add -A; git status --short > /dev/null"
        ),
    ),
    ("python3", "python3 -c 'import json, asyncio, http.client, xml.dom.minidom'"),
    (
        "make",
        in_a_directory!(
            "for i in 1 2 3 4 5 6; do echo \"int f$i(void) { return $i; }\" > f$i.c; done; make -s \
             f1.o f2.o f3.o f4.o f5.o f6.o"
        ),
    ),
    (
        "redis",
        in_a_directory!(
            "redis-server --port 0 --unixsocket $d/s --save '' > /dev/null & sleep 0.5; \
             redis-benchmark -s $d/s -q -n 10000 -c 1 -t set > /dev/null; redis-cli -s $d/s \
             shutdown nosave; wait"
        ),
    ),
    (
        "nginx",
        in_a_directory!(
            "printf 'daemon off; master_process off; pid %s/pid; error_log /dev/null; events {} \
             http { access_log off; server { listen unix:%s/s; root /usr/share/perl; } }' $d $d > \
             conf; nginx -c $d/conf & sleep 0.5; i=0; while [ $i -lt \
             20 ]; do curl -s --unix-socket $d/s -o /dev/null http://localhost/; i=$((i+1)); done; \
             kill $(cat pid); wait"
        ),
    ),
    (
        "fio",
        in_a_directory!(
            "fio --name=one --filename=$d/file --size=16m --bs=4k --rw=write --ioengine=psync \
             --thread --output=/dev/null"
        ),
    ),
    ("grep", "grep -rc perl /usr/share/perl > /dev/null"),
];
