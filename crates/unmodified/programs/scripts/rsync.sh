# A tree, its copy, a change, and the copy again: whole files, differences, in place, and with deletions.
set -eu
mkdir -p from/sub
seq 1 20000 >from/numbers
seq 1 300 >from/sub/few
: >from/empty
ln -s numbers from/soft
chmod 640 from/sub/few
rsync -a from/ to/
diff -r from to
seq 30000 30100 >>from/numbers
sed -i 's/^5000$/changed/' from/numbers
rm from/empty
rsync -a --no-whole-file --checksum --delete from/ to/
diff -r from to
seq 1 10 >>from/numbers
rsync -a --no-whole-file --inplace from/ to/
diff -r from to
rsync -a --append-verify from/ other/
rsync -rni --checksum from/ to/
cat to/numbers | cksum
