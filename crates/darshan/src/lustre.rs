//! Layouts of files on Lustre.

use crate::Log;
use crate::module::Module;
use crate::region::Reader;

/// Limit of the components and stripes of a file.
const MOST: i64 = 1 << 16;
/// Bytes of a component: seven numbers and the name of its pool.
const COMPONENT: usize = 72;

/// How a file lies on storage targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The file's record id.
    pub id: u64,
    /// The rank that saw it; below 0 if all did.
    pub rank: i64,
    /// Components: more than one for layouts that change with the offset.
    pub components: u64,
    /// Bytes of a stripe of the first component.
    pub stripe_size: i64,
    /// Stripes of the first component.
    pub stripe_count: i64,
    /// Storage targets of all components.
    pub targets: Vec<i64>,
}

pub(crate) fn read(
    log: &Log<'_>,
    reader: &mut Reader<'_>,
    count: &mut u64,
    each: &mut dyn FnMut(&Layout),
) -> Result<(), String> {
    let order = log.header.order;
    let version = log.header.module_version(Module::LUSTRE);
    // Before the components: the id, the rank and two counts, or, in the first version, five
    // numbers.
    let mut fixed = match version {
        1 => vec![0; 56],
        2 => vec![0; 32],
        _ => return Err(format!("records of version {version} are not read")),
    };
    while reader.fill(&mut fixed)? {
        let word = |place: usize| order.i64(&fixed, place * 8).unwrap_or(0);
        let checked = |count: i64| {
            if (0..=MOST).contains(&count) {
                Ok(count as usize)
            } else {
                Err("a file in it has more stripes than there can be".to_owned())
            }
        };
        let mut layout = Layout { id: word(0).cast_unsigned(), rank: word(1), ..Layout::default() };
        let mut stripes = if version == 1 {
            (layout.components, layout.stripe_size, layout.stripe_count) = (1, word(5), word(6));
            checked(word(6))?
        } else {
            checked(word(3))?
        };
        let components = if version == 1 { 0 } else { checked(word(2))? };
        let mut component = [0; COMPONENT];
        let mut used = 0;
        let mut over = false;
        for _ in 0..components {
            reader.require(&mut component)?;
            let word = |place: usize| order.i64(&component, place * 8).unwrap_or(0);
            // Components that were not needed have this size, and nothing after them counts.
            over |= word(0) == -1;
            if over {
                continue;
            }
            if layout.components == 0 {
                (layout.stripe_size, layout.stripe_count) = (word(0), word(1));
            }
            layout.components += 1;
            used += usize::try_from(word(1)).unwrap_or(0).min(MOST as usize);
        }
        if version > 1 && components == 0 {
            stripes = 0;
        }
        let mut target = [0; 8];
        for place in 0..stripes {
            reader.require(&mut target)?;
            if version == 1 || place < used {
                layout.targets.push(order.i64(&target, 0).unwrap_or(0));
            }
        }
        *count += 1;
        each(&layout);
    }
    Ok(())
}
