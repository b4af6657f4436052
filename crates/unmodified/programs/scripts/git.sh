# A repository, its clones, and what git itself thinks of them.
set -eu
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main origin
cd origin
mkdir sub
for n in 1 2 3 4 5; do
    seq "$n" 3000 >file
    seq "$n" 100 >"sub/file$n"
    git add .
    git commit -q -m "number $n"
done
git gc -q
git branch side HEAD~2
cd ..
git clone -q --no-hardlinks origin clone
git clone -q --no-local origin packed
git clone -q --bare origin bare.git
cd packed
git log --format='%H %s'
git fsck --strict
git checkout -q side
seq 9 >sub/more
git add sub/more
git commit -q -m side
git merge -q -m merged origin/main
git push -q origin side
git status --porcelain
git ls-files -s
cd ../clone
git pull -q
git fsck --full
git diff HEAD~1 --stat
git stash list
git count-objects -v | grep -v size
