set -eu
$MPIEXEC -n 2 "$PROGRAM"
