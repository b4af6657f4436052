set -eu
"$PYTHON" "$SCRIPTS/hdf5.py"
