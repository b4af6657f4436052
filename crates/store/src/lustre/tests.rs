//! Tests: layouts byte by byte, malicious ones, and opening on a simulated Lustre.

mod bytes;
mod fake;
mod hostile;
mod opening;
mod requests;
