//! The `striate` command.
fn main() {}
