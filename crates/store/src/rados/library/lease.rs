//! Locks of RADOS on an object, which end by themselves after a time: the leases of
//! [`super::super::lock`].

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;

use super::cluster::{PoolHandle, outcome};

/// Whether a lock that this holder has already is prolonged, rather than an error.
const RENEW: u8 = 1;

fn c_string(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::EINVAL)
}

fn time(duration: Duration) -> libc::timeval {
    libc::timeval {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(duration.subsec_micros()),
    }
}

impl PoolHandle {
    /// Takes or prolongs a lock that others may share.
    pub(in crate::rados) fn lease_shared(
        &self,
        object: &str,
        lock: &CStr,
        holder: &str,
        duration: Duration,
    ) -> Result<(), Errno> {
        let (object, holder, mut duration) = (c_string(object)?, c_string(holder)?, time(duration));
        let (tag, text) = (c"striate".as_ptr(), c"striate".as_ptr());
        let lease = self.cluster.library.lock_shared;
        // SAFETY: the strings end with a zero and, as the time, last for the call.
        outcome(unsafe {
            lease(
                self.raw,
                object.as_ptr(),
                lock.as_ptr(),
                holder.as_ptr(),
                tag,
                text,
                &raw mut duration,
                RENEW,
            )
        })?;
        Ok(())
    }

    /// Takes or prolongs a lock; `EBUSY` if another holder has it.
    pub(in crate::rados) fn lease_exclusive(
        &self,
        object: &str,
        lock: &CStr,
        holder: &str,
        duration: Duration,
    ) -> Result<(), Errno> {
        let (object, holder, mut duration) = (c_string(object)?, c_string(holder)?, time(duration));
        let lease = self.cluster.library.lock_exclusive;
        let text = c"striate".as_ptr();
        // SAFETY: the strings end with a zero and, as the time, last for the call.
        outcome(unsafe {
            lease(
                self.raw,
                object.as_ptr(),
                lock.as_ptr(),
                holder.as_ptr(),
                text,
                &raw mut duration,
                RENEW,
            )
        })?;
        Ok(())
    }

    /// Gives a lock back.
    pub(in crate::rados) fn release(
        &self,
        object: &str,
        lock: &CStr,
        holder: &str,
    ) -> Result<(), Errno> {
        let (object, holder) = (c_string(object)?, c_string(holder)?);
        let unlock = self.cluster.library.unlock;
        // SAFETY: the strings end with a zero and last for the call.
        outcome(unsafe { unlock(self.raw, object.as_ptr(), lock.as_ptr(), holder.as_ptr()) })?;
        Ok(())
    }

    /// Who holds a lock whose time has not run out.
    pub(in crate::rados) fn holders(
        &self,
        object: &str,
        lock: &CStr,
    ) -> Result<Vec<String>, Errno> {
        let object = c_string(object)?;
        let list = self.cluster.library.list_lockers;
        let mut space = 4096;
        loop {
            let mut exclusive = 0;
            let mut buffers: [Vec<c_char>; 4] = std::array::from_fn(|_| vec![0; space]);
            let mut lens = [space; 4];
            let [tag, clients, cookies, addresses] = &mut buffers;
            let [tag_len, clients_len, cookies_len, addresses_len] = &mut lens;
            // SAFETY: each buffer has the length that is told with it; all last for the call.
            let found = unsafe {
                list(
                    self.raw,
                    object.as_ptr(),
                    lock.as_ptr(),
                    ptr::from_mut(&mut exclusive),
                    tag.as_mut_ptr(),
                    ptr::from_mut(tag_len),
                    clients.as_mut_ptr(),
                    ptr::from_mut(clients_len),
                    cookies.as_mut_ptr(),
                    ptr::from_mut(cookies_len),
                    addresses.as_mut_ptr(),
                    ptr::from_mut(addresses_len),
                )
            };
            let errno = Errno::from_raw(i32::try_from(-found).unwrap_or(0));
            match usize::try_from(found) {
                Ok(count) => {
                    let text: Vec<u8> = cookies.iter().map(|&byte| byte as u8).collect();
                    let names = text.split(|&byte| byte == 0).take(count);
                    return Ok(names
                        .map(|name| String::from_utf8_lossy(name).into_owned())
                        .collect());
                }
                Err(_) if errno == Errno::ERANGE && space < 1 << 24 => space *= 8,
                Err(_) if errno == Errno::ENOENT => return Ok(Vec::new()),
                Err(_) => return Err(errno),
            }
        }
    }
}
