# cp, dd, sort, split and friends, on files of several sizes.
set -eu
seq 1 40000 >numbers
dd if=numbers of=blocks bs=4096 status=none
dd if=numbers of=odd bs=777 status=none
dd if=numbers of=tiny bs=64 count=500 status=none
dd if=numbers of=large bs=1M status=none
# In the middle of what is there, and behind its end.
dd if=tiny of=blocks bs=512 seek=3 conv=notrunc status=none
dd if=tiny of=blocks bs=512 seek=1000 conv=notrunc status=none
dd if=tiny of=sparse bs=1000 seek=100 status=none
dd if=tiny of=appended bs=300 conv=notrunc oflag=append status=none
dd if=tiny of=appended bs=300 conv=notrunc oflag=append status=none
dd if=tiny of=synced bs=1000 conv=fsync status=none
dd if=numbers bs=1000 skip=20 count=3 status=none | cksum
cp numbers copy
cp -p --reflink=never numbers kept
cp --sparse=always sparse holes
mkdir tree
cp numbers odd tiny tree
cp -r tree tree2
mv tree2/odd tree2/moved
ln tree2/moved tree2/linked
ln -s moved tree2/soft
install -m 600 tiny installed
# With little memory, so that runs are merged from temporary files.
sort -R --random-source=numbers numbers >mixed
sort -n -S 64k -T "$TMPDIR" -o sorted mixed
cmp sorted numbers
sort -n -S 64k -T "$TMPDIR" -o mixed mixed
cmp mixed numbers
split -l 9000 numbers part.
cat part.* >joined
cmp joined numbers
truncate -s 12345 joined
shuf -i 1-1000 --random-source=numbers >shuffled
tee one two <tiny >three
wc -c ./*.a* numbers one two three | sort
tail -n 3 numbers
tail -c 20 large | od -c | head -2
head -c 5000 large | cksum
cksum -- blocks odd tiny large sparse appended copy kept holes
rm -r tree
test ! -e tree
grep -c 77 numbers
sed -i 's/^77$/seventy-seven/' numbers
awk '$1 % 1000 == 0 { print > "thousands" } END { print NR }' sorted
cat thousands | wc -l
touch -d @1000000000 touched
stat -c '%n %s %Y' touched
