//! Heaps: names of old groups (local), values of variable length (global), links, attributes and
//! messages of new files (fractal).

pub(crate) mod fractal;
pub(crate) mod global;
pub(crate) mod local;
