//! Layouts byte by byte, hostile ones, and opening on a Lustre that is not there.

mod bytes;
mod fake;
mod hostile;
mod opening;
mod requests;
