//! MPI is the judge of what its constructors mean: random types, built by us and by both MPIs.
//!
//! MPICH's bounds must be ours, but for two quirks: parts without data count for it in vectors,
//! indexed blocks and structs, and it pads a struct of equal types that have different handles.
//! Open MPI pads the extent of every constructor and keeps bounds sticky inside of structs, so its
//! bounds are not asked; wherever its type is the same as ours, its bytes must be.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use striate_bench::peer::{
    Direction, Peer, PeerError, TypeInfo, hash, memory_pattern, stream_pattern,
};
use striate_datatype::notation::Notation;
use striate_datatype::{Datatype, Packer};
use striate_testing::type_map::{TypeMap, any_notation};

const CASES: usize = 3000;

fn random_notations() -> impl Iterator<Item = Notation> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = any_notation();
    std::iter::repeat_with(move || strategy.new_tree(&mut runner).unwrap().current())
        .filter(|notation| TypeMap::of(notation).offsets.len() < 100_000)
        .take(CASES)
}

fn info(ty: &Datatype) -> TypeInfo {
    TypeInfo {
        size: ty.size(),
        lb: ty.lower_bound(),
        extent: ty.extent(),
        true_lb: ty.true_lower_bound(),
        true_extent: ty.true_extent() as i64,
    }
}

/// Whether MPICH may see other bounds.
fn has_quirk(notation: &Notation) -> bool {
    let here = match notation {
        Notation::Bytes(len) => *len == 0,
        Notation::Vector { count, block, .. } | Notation::Hvector { count, block, .. } => {
            *count == 0 || *block == 0
        }
        Notation::IndexedBlock { block, .. } | Notation::HindexedBlock { block, .. } => *block == 0,
        Notation::Struct { fields } => {
            let types: Vec<_> = fields.iter().map(|field| field.2.build().unwrap()).collect();
            // Two types are one for MPICH if they are one handle.
            types.windows(2).any(|pair| pair[0] == pair[1])
                || fields.iter().any(|field| field.0 == 0)
                || types.iter().any(|ty| ty.size() == 0)
        }
        _ => false,
    };
    here || parts(notation).into_iter().any(has_quirk)
}

/// Whether the peer gives the type, and all types within, the bounds that we do.
fn is_common_ground(peer: &mut Peer, notation: &Notation) -> bool {
    let ours = info(&notation.build().unwrap());
    match peer.build(notation) {
        Ok(theirs) if theirs == ours => parts(notation).iter().all(|of| is_common_ground(peer, of)),
        // Open MPI has no subarrays without elements, and no arrays of empty types.
        Ok(_) | Err(PeerError::Refused { .. }) => false,
        Err(error) => panic!("{notation}: {error}"),
    }
}

fn parts(notation: &Notation) -> Vec<&Notation> {
    match notation {
        Notation::Element(_) | Notation::Bytes(_) => Vec::new(),
        Notation::Struct { fields } => fields.iter().map(|field| &field.2).collect(),
        Notation::Vector { of, .. }
        | Notation::Hvector { of, .. }
        | Notation::IndexedBlock { of, .. }
        | Notation::HindexedBlock { of, .. }
        | Notation::Contiguous { of, .. }
        | Notation::Indexed { of, .. }
        | Notation::Hindexed { of, .. }
        | Notation::Subarray { of, .. }
        | Notation::Darray { of, .. }
        | Notation::Resized { of, .. }
        | Notation::Dup { of } => vec![of],
    }
}

/// Both pack and unpack copies of the type from the same bytes; the results must be the same.
fn compare_bytes(peer: &mut Peer, ty: &Datatype, count: u64, context: &str) {
    let [memory_len, origin, stream_len] = peer.buffers(count).unwrap();
    let packer = Packer::new(ty, count).unwrap();
    assert_eq!(stream_len as u64, packer.size(), "{context}");
    let mut memory: Vec<u8> = (0..memory_len as usize).map(memory_pattern).collect();
    let mut stream = vec![0; stream_len as usize];
    if stream.is_empty() {
        return;
    }
    packer.pack(&memory, origin as usize, &mut stream).unwrap();
    peer.time(Direction::Pack, 1).unwrap();
    assert_eq!(peer.stream_hash().unwrap(), hash(&stream), "pack: {context}");

    stream.iter_mut().enumerate().for_each(|(i, byte)| *byte = stream_pattern(i));
    packer.unpack(&stream, &mut memory, origin as usize).unwrap();
    peer.fill_stream().unwrap();
    peer.time(Direction::Unpack, 1).unwrap();
    assert_eq!(peer.memory_hash().unwrap(), hash(&memory), "unpack: {context}");
}

#[test]
fn both_mpis_agree_on_types_and_bytes() {
    let mut peers = Peer::start_all().unwrap();
    assert_eq!(peers.iter().map(Peer::name).collect::<Vec<_>>(), ["openmpi", "mpich"]);
    let mut compared = vec![0; peers.len()];
    for notation in random_notations() {
        let ty = notation.build().unwrap();
        for (i, peer) in peers.iter_mut().enumerate() {
            let context = format!("{} of {notation}", peer.name());
            if peer.name() == "openmpi" && !is_common_ground(peer, &notation) {
                continue;
            }
            let (theirs, ours) = (peer.build(&notation).unwrap(), info(&ty));
            assert_eq!(theirs.size, ours.size, "{context}");
            let same_bounds = (theirs.lb, theirs.extent) == (ours.lb, ours.extent);
            if peer.name() == "mpich" && !has_quirk(&notation) {
                assert!(same_bounds, "{context}: {theirs:?}, ours {ours:?}");
            }
            if same_bounds {
                compare_bytes(peer, &ty, 3, &context);
                compared[i] += 1;
            }
        }
    }
    // Most types are common ground; if not, the comparison itself is broken.
    assert!(compared.iter().all(|&n| n > CASES / 2), "{compared:?} of {CASES}");
}

#[test]
fn a_refusal_is_an_error_and_the_peer_lives_on() {
    for mut peer in Peer::start_all().unwrap() {
        let huge = Notation::Bytes(1 << 40);
        assert!(matches!(peer.build(&huge), Err(PeerError::Refused { .. })));
        assert!(matches!(peer.buffers(1), Err(PeerError::Refused { .. })));
        assert_eq!(peer.build(&Notation::Bytes(5)).unwrap().size, 5);
        assert!(!peer.version().unwrap().is_empty());
    }
}
