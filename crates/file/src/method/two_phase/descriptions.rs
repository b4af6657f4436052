//! [`Descriptions`]: which bytes the ranks of a call mean, as far as a group has to know it.
//!
//! Ranks of a group give their descriptions to the leader. Leaders send those of their group, in
//! one message, to every aggregator, which needs those that reach into its domain: a message per
//! pair of groups, however many ranks there are. Filetypes that several ranks have in common are
//! sent once.

use std::ops::Range;

use striate_comm::{Comm, Request};
use striate_datatype::Datatype;
use striate_layout::file_domain::Domains;
use striate_store::store::Placement;

use super::plan::Groups;
use crate::FileError;
use crate::access::FileSide;

/// Tag of descriptions.
const DESCRIPTION: u32 = 3;

/// No description is longer.
const LONGEST: usize = 1 << 40;

/// The accesses of the ranks of another group, as far as they reach into this group's domain.
pub(super) struct GroupAccess {
    pub(super) group: usize,
    pub(super) ranks: Vec<(usize, FileSide)>,
}

/// See the module. Of a leader.
pub(super) struct Descriptions {
    /// The accesses of the group's own ranks, in order.
    pub(super) own: Vec<FileSide>,
    /// Other groups with bytes in this group's domain, about.
    pub(super) others: Vec<GroupAccess>,
    /// Other aggregators in whose domains this group has bytes, about: their groups.
    pub(super) aggregators: Vec<usize>,
}

fn malformed() -> FileError {
    FileError::View { reason: "a description of another rank is malformed".into() }
}

/// Sends the description of a rank that does not lead to its leader.
pub(super) fn tell_leader(
    comm: &dyn Comm,
    groups: &Groups,
    file: &FileSide,
) -> Result<(), FileError> {
    let leader = groups.leader(groups.group_of(comm.rank()));
    let message = encode(&[(comm.rank(), file)]);
    comm.wait(comm.send(leader, DESCRIPTION, message)?)?;
    Ok(())
}

impl Descriptions {
    /// Exchanges descriptions, as a leader.
    pub(super) fn exchange(
        comm: &dyn Comm,
        groups: &Groups,
        domains: &Domains,
        file: &FileSide,
    ) -> Result<Self, FileError> {
        let own_group = groups.group_of(comm.rank());
        let count = groups.ranks.len();
        let after = |step: usize| (own_group + step) % count;
        let mut expected: Vec<(usize, Request)> = Vec::new();
        if groups.aggregator[own_group].is_some() {
            for group in (1..count).map(after) {
                let leader = groups.leader(group);
                expected.push((group, comm.receive(leader, DESCRIPTION, LONGEST)?));
            }
        }
        let mut own = vec![file.clone()];
        let told: Vec<Request> = groups.ranks[own_group][1..]
            .iter()
            .map(|&rank| comm.receive(rank, DESCRIPTION, LONGEST))
            .collect::<Result<_, _>>()?;
        for request in told {
            let message = comm.wait(request)?;
            let (_, file) = decode(&message)?.pop().ok_or_else(malformed)?;
            own.push(file);
        }
        let mut aggregators = Vec::new();
        let mut sends = Vec::new();
        for group in (1..count).map(after) {
            let Some(aggregator) = groups.aggregator[group] else { continue };
            let extent = domains.extent(aggregator).unwrap_or(0..0);
            let ranks = groups.ranks[own_group].iter().copied().zip(&own);
            let list: Vec<_> = ranks.filter(|(_, file)| reaches(file, &extent)).collect();
            if !list.is_empty() {
                aggregators.push(group);
            }
            sends.push(comm.send(groups.leader(group), DESCRIPTION, encode(&list))?);
        }
        let mut others = Vec::new();
        for (group, request) in expected {
            let ranks = decode(&comm.wait(request)?)?;
            if !ranks.is_empty() {
                others.push(GroupAccess { group, ranks });
            }
        }
        for send in sends {
            comm.wait(send)?;
        }
        Ok(Self { own, others, aggregators })
    }
}

fn reaches(file: &FileSide, extent: &Range<u64>) -> bool {
    file.range().is_some_and(|range| range.start < extent.end && extent.start < range.end)
}

/// A list in its encoded form: the number of types, their encodings, each after its length; then
/// rank, type, displacement, start and length of each access.
fn encode(list: &[(usize, &FileSide)]) -> Vec<u8> {
    let mut types: Vec<Vec<u8>> = Vec::new();
    let mut accesses = Vec::new();
    for (rank, file) in list {
        let placement = file.placement();
        let encoded = placement.datatype.encode();
        let known = types.iter().rposition(|known| *known == encoded);
        let index = known.unwrap_or(types.len());
        if known.is_none() {
            types.push(encoded);
        }
        let Placement { displacement, start, len, .. } = *placement;
        for number in [*rank as u64, index as u64, displacement, start, len] {
            accesses.extend_from_slice(&number.to_le_bytes());
        }
    }
    let mut bytes = (types.len() as u64).to_le_bytes().to_vec();
    for encoded in types {
        bytes.extend_from_slice(&(encoded.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&encoded);
    }
    bytes.extend_from_slice(&accesses);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vec<(usize, FileSide)>, FileError> {
    let (number, mut rest) = bytes.split_first_chunk().ok_or_else(malformed)?;
    let mut types = Vec::new();
    for _ in 0..u64::from_le_bytes(*number) {
        let (len, after) = rest.split_first_chunk().ok_or_else(malformed)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| malformed())?;
        let (encoded, after) = after.split_at_checked(len).ok_or_else(malformed)?;
        types.push(Datatype::decode(encoded).map_err(|_| malformed())?);
        rest = after;
    }
    let (words, []) = rest.as_chunks::<8>() else { return Err(malformed()) };
    let (accesses, []) = words.as_chunks::<5>() else { return Err(malformed()) };
    accesses
        .iter()
        .map(|access| {
            let [rank, index, displacement, start, len] = access.map(u64::from_le_bytes);
            let datatype = types.get(index as usize).ok_or_else(malformed)?.clone();
            let placement = Placement { displacement, start, len, datatype };
            Ok((rank as usize, FileSide::from_placement(placement)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;

    #[test]
    fn types_in_common_are_sent_once_and_lists_round_trip() {
        let block = Datatype::bytes(8).unwrap();
        let filetype = Datatype::resized(&block, 0, 64).unwrap();
        let side = |rank: u64| {
            let view = View::new(8 * rank, &block, &filetype).unwrap();
            FileSide::new(&view, 0, 800).unwrap()
        };
        let sides: Vec<FileSide> = (0..16).map(side).collect();
        let list: Vec<_> = sides.iter().enumerate().collect();
        let (one, all) = (encode(&list[..1]), encode(&list));
        assert_eq!(all.len() - one.len(), 15 * 40);
        let decoded = decode(&all).unwrap();
        assert_eq!(decoded.len(), 16);
        for (rank, file) in &decoded {
            let (own, their) = (sides[*rank].placement(), file.placement());
            assert_eq!(
                (own.displacement, own.start, own.len),
                (their.displacement, their.start, their.len)
            );
        }
        assert!(decode(&encode(&[])).unwrap().is_empty());
        for cut in 0..all.len() {
            // Whole accesses may be missing, which the length of a message rules out; nothing else.
            assert!(
                decode(&all[..cut]).is_ok_and(|list| list.len() < 16)
                    || decode(&all[..cut]).is_err()
            );
        }
    }
}
