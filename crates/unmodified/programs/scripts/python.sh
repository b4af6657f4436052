set -eu
"$PYTHON" "$SCRIPTS/python.py"
