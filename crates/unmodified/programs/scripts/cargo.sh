# A library and a program without dependencies: built, changed, built again, tested, run and cleaned away.
set -eu
export CARGO_HOME="$TMPDIR/cargo-home" CARGO_INCREMENTAL=1 CARGO_NET_OFFLINE=true
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR RUSTFLAGS RUSTC_WRAPPER || true
mkdir -p whole/src part/src
cat >Cargo.toml <<'TOML'
[workspace]
members = ["whole", "part"]
resolver = "3"
TOML
cat >part/Cargo.toml <<'TOML'
[package]
name = "part"
version = "0.1.0"
edition = "2024"
TOML
cat >whole/Cargo.toml <<'TOML'
[package]
name = "whole"
version = "0.1.0"
edition = "2024"
[dependencies]
part = { path = "../part" }
TOML
echo 'pub fn answer() -> u32 { 42 }' >part/src/lib.rs
cat >>part/src/lib.rs <<'RUST'
#[test]
fn is_an_answer() { assert!(answer() > 40) }
RUST
echo 'fn main() { println!("{}", part::answer()) }' >whole/src/main.rs
"$CARGO" build -q --offline
./target/debug/whole
sed -i s/42/43/ part/src/lib.rs
"$CARGO" build -q --offline
./target/debug/whole
"$CARGO" build -q --offline
"$CARGO" test -q --offline 2>&1 | grep -o 'test result: [a-z]*. [0-9]* passed; [0-9]* failed' | sort | uniq -c
cp target/debug/whole program
./program
rm program
"$CARGO" clean -q
ls
