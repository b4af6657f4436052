//! Pure arithmetic of parallel I/O.
