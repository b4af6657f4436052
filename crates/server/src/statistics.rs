//! [`Statistics`]: the counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows, or that says how many there are now.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes from it; for what there is now.
    pub fn subtract(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Sets it; for what there is now.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! statistics {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ident,)+) => {
        /// What a server has done since it started.
        #[derive(Debug, Default)]
        pub struct Statistics {
            $($(#[doc = $doc])+ pub $name: Counter,)+
        }

        impl Statistics {
            /// All numbers: name, kind (`counter` or `gauge`), meaning, value.
            pub fn all(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$((stringify!($name), stringify!($kind), concat!($($doc),+).trim_ascii(), self.$name.get()),)+]
            }
        }
    };
}

statistics! {
    /// Connections that are open.
    connections: gauge,
    /// Connections that were accepted.
    connections_accepted: counter,
    /// Connections that were refused because of a limit.
    connections_refused: counter,
    /// Connections that were closed before they had proved anything, for the sake of newer ones.
    strangers_displaced: counter,
    /// Handshakes that failed: a wrong key, no key, another protocol.
    handshakes_failed: counter,
    /// Frames that were malformed or damaged.
    bad_frames: counter,
    /// Connections that ended by a fault of the server.
    panics: counter,
    /// Requests of all kinds.
    requests: counter,
    /// Requests that were answered with a failure.
    failures: counter,
    /// Contiguous reads and writes.
    contiguous_requests: counter,
    /// Reads and writes of lists.
    list_requests: counter,
    /// Reads and writes of described bytes.
    typed_requests: counter,
    /// Bytes of data sent to clients.
    bytes_read: counter,
    /// Bytes of data received from clients.
    bytes_written: counter,
    /// Parts of strips that data requests came to.
    parts: counter,
    /// System calls that read from objects.
    object_reads: counter,
    /// Bytes that those read, gaps included.
    object_bytes_read: counter,
    /// System calls that wrote to objects.
    object_writes: counter,
    /// Bytes that those wrote.
    object_bytes_written: counter,
    /// Objects that were made durable.
    syncs: counter,
    /// Bytes of buffers that are in use.
    buffer_bytes: gauge,
    /// Locks that are held.
    locks: gauge,
    /// Locks whose lease ran out.
    locks_lost: counter,
}
