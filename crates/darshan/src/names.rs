//! Names: paths by the id of their records. In format version 3.00 a name follows its length; later
//! it ends with a zero byte.

use std::collections::HashMap;

use crate::Damage;
use crate::header::Header;
use crate::region::{Buffered, Reader};

/// Longer names are not paths.
const LONGEST: usize = 64 << 10;
/// Bytes of all names together that are kept.
const MOST: usize = 1 << 30;

/// The names, and why there are no more if so.
pub(crate) fn read(bytes: &[u8], header: &Header) -> (HashMap<u64, String>, Option<Damage>) {
    let mut names = HashMap::new();
    if header.names.length == 0 {
        return (names, None);
    }
    let mut reader = Reader::new(bytes, header.names, header);
    let read = all(&mut reader, header, &mut names);
    let records = names.len() as u64;
    let damage = read.err().map(|reason| Damage { region: "names".into(), reason, records });
    (names, damage)
}

fn all(
    reader: &mut Reader<'_>,
    header: &Header,
    names: &mut HashMap<u64, String>,
) -> Result<(), String> {
    let mut buffer = Buffered::new();
    let mut id = [0; 8];
    let mut kept = 0usize;
    while buffer.fill(reader, &mut id)? {
        let within = || "it ends within a name".to_owned();
        let id = header.order.u64(&id, 0).ok_or_else(within)?;
        let name = if header.version.minor >= 10 {
            reader.text(&mut buffer, LONGEST)?.ok_or_else(within)?
        } else {
            let mut length = [0; 4];
            if !buffer.fill(reader, &mut length)? {
                return Err(within());
            }
            let length = header.order.u32(&length, 0).ok_or_else(within)? as usize;
            if length > LONGEST {
                return Err("a name in it is longer than any path".into());
            }
            let mut name = vec![0; length];
            if length > 0 && !buffer.fill(reader, &mut name)? {
                return Err(within());
            }
            name
        };
        kept += name.len() + 64;
        if kept > MOST {
            return Err("there are more names than fit into memory".into());
        }
        // The first name of an id counts, unless it is empty.
        let name = String::from_utf8_lossy(&name);
        let known = names.entry(id).or_default();
        if known.is_empty() {
            *known = name.into_owned();
        }
    }
    Ok(())
}
