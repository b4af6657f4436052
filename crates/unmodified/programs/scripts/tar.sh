# An archive, whole and compressed, appended to, listed and unpacked again.
set -eu
mkdir -p tree/a/b
for n in $(seq 1 60); do seq "$n" $((n * 30)) >tree/a/file$n; done
seq 1 30000 >tree/a/b/large
ln -s file1 tree/a/soft
ln tree/a/file2 tree/hard
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf all.tar tree
tar --sort=name --mtime=@0 --owner=0 --group=0 -czf all.tar.gz tree
seq 5 >more
tar --mtime=@0 --owner=0 --group=0 -rf all.tar more
tar -tf all.tar | sort | cksum
mkdir out out2
tar -xf all.tar -C out
tar -xzf all.tar.gz -C out2
diff -r tree out/tree
diff -r tree out2/tree
tar -df all.tar && echo same
gzip -k -n more
gunzip -c more.gz
