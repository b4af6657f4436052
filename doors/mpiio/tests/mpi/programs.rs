//! Programs that use all kinds of functions, in C and Fortran; the files are those of the MPI's own
//! implementation.

use std::fs;
use std::path::Path;

use crate::door::{On, compile, passes, run};

/// Runs a program on the door and natively; what it wrote must be the same. Whether it passes
/// natively is the MPI's business: some versions of ROMIO count bytes that are not there.
fn writes_the_same(name: &str) {
    let place = tempfile::tempdir().unwrap();
    let (ours, native) = (place.path().join("ours"), place.path().join("native"));
    let program = compile(name);
    passes(&program, &[&ours], &[]);
    run(On::Native, &program, &[&native], &[]);
    assert!(fs::read(&ours).unwrap() == fs::read(&native).unwrap(), "the files differ");
}

#[test]
fn blocks_alone_and_together() {
    writes_the_same("blocks.c");
}

#[test]
fn every_family_of_functions() {
    // Shared pointers leave the order to chance, and so do not leave the same file.
    let place = tempfile::tempdir().unwrap();
    passes(&compile("families.c"), &[&place.path().join("file")], &[]);
}

#[test]
fn collective_calls_that_are_begun() {
    let place = tempfile::tempdir().unwrap();
    passes(&compile("nonblocking_collective.c"), &[&place.path().join("file")], &[]);
}

#[test]
fn fortran_by_mpif_h() {
    writes_the_same("mpif_h.f90");
}

#[test]
fn fortran_by_its_module() {
    writes_the_same("use_mpi.f90");
}

#[test]
fn fortran_2008() {
    writes_the_same("use_mpi_f08.f90");
}

#[test]
fn hints_of_the_site_count_more() {
    let place = tempfile::tempdir().unwrap();
    let hints = place.path().join("hints");
    let text = "# of this site\nind_rd_buffer_size 49\nromio_cb_read enable\n\nromio_no_indep_rw true\nromio_cb_read disable\nalone\n";
    fs::write(&hints, text).unwrap();
    let hints = hints.to_str().unwrap();
    passes(
        &compile("romio_hints_file.c"),
        &[&place.path().join("file")],
        &[("ROMIO_HINTS", hints)],
    );
}

#[test]
fn hints_of_an_open_file_take_effect() {
    let place = tempfile::tempdir().unwrap();
    let stats = [("STRIATE_MPIIO_STATS", "1")];
    let output = passes(&compile("hints.c"), &[&place.path().join("file")], &stats);
    let methods = output.lines().find(|line| line.contains("methods:")).unwrap_or_default();
    for method in ["posix", "two-phase", "sieve"] {
        assert!(methods.contains(method), "no {method}: {output}");
    }
}

#[test]
fn words_for_file_systems() {
    let place = tempfile::tempdir().unwrap();
    passes(&compile("romio_prefix.c"), &[&place.path().join("file")], &[]);
}

#[test]
fn views_that_overlap_themselves_are_read() {
    let place = tempfile::tempdir().unwrap();
    let program = compile("overlap.c");
    for method in ["auto", "posix", "sieve", "two-phase", "list", "datatype"] {
        let hints = format!("striate_method={method}");
        passes(&program, &[&place.path().join("file")], &[("STRIATE_HINTS", &hints)]);
    }
}

#[test]
fn absolute_addresses_are_converted() {
    let place = tempfile::tempdir().unwrap();
    passes(&compile("absolute_addresses.c"), &[&place.path().join("file")], &[]);
}

#[test]
fn representations_of_the_programs_own() {
    let place = tempfile::tempdir().unwrap();
    passes(&compile("datarep.c"), &[&place.path().join("file")], &[]);
}

#[test]
fn a_summary_is_printed_once() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    let output = passes(&compile("blocks.c"), &[&file], &[("STRIATE_MPIIO_STATS", "1")]);
    let title = format!("striate-mpiio: {}", file.display());
    assert_eq!(output.matches(&title).count(), 1, "{output}");
    assert!(output.contains("collective writes") && output.contains("requests for"), "{output}");
}

#[test]
fn names_are_mapped() {
    let place = tempfile::tempdir().unwrap();
    let map = format!("/nowhere/={}/", place.path().display());
    passes(&compile("blocks.c"), &[Path::new("/nowhere/file")], &[("STRIATE_MPIIO_MAP", &map)]);
    assert!(place.path().join("file").exists());
}

#[test]
fn excluded_files_are_left_to_the_mpi() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file.native");
    let variables = [("STRIATE_MPIIO_EXCLUDE", "*.native,*.other"), ("STRIATE_MPIIO_STATS", "1")];
    let program = compile("excluded.c");
    let output = passes(&program, &[&file, &place.path().join("file.ours")], &variables);
    assert!(output.contains("file.ours ("), "{output}");
    assert!(!output.contains("file.native ("), "{output}");
}

#[test]
fn threads_at_the_same_time_and_in_turn() {
    let place = tempfile::tempdir().unwrap();
    let (program, file) = (compile("threads.c"), place.path().join("file"));
    passes(&program, &[&file], &[]);
    passes(&program, &[&file, Path::new("in-turn")], &[]);
}

#[test]
fn one_file_after_the_other() {
    let place = tempfile::tempdir().unwrap();
    let (program, file) = (compile("context_cache.c"), place.path().join("file"));
    passes(&program, &[&file], &[]);
    passes(&program, &[&file], &[("STRIATE_RANKS_PER_NODE", "1")]);
    passes(&program, &[&file, Path::new("left-open")], &[]);
}

#[test]
fn small_collective_calls_one_after_the_other() {
    let place = tempfile::tempdir().unwrap();
    let (program, file) = (compile("barrier_elision.c"), place.path().join("file"));
    passes(&program, &[&file], &[]);
    passes(&program, &[&file], &[("STRIATE_RANKS_PER_NODE", "1")]);
    passes(&program, &[&file], &[("STRIATE_HINTS", "striate_write_behind=disable")]);
    // What waits is written even if the program ends without closing the file.
    let (left, closed) = (place.path().join("left"), place.path().join("closed"));
    passes(&program, &[&left, Path::new("left-open")], &[]);
    let hints = [("STRIATE_HINTS", "striate_write_behind=disable")];
    passes(&program, &[&closed, Path::new("left-open")], &hints);
    let (left, closed) = (fs::read(&left).unwrap(), fs::read(&closed).unwrap());
    assert_eq!(left.len(), closed.len());
    let block = |bytes: &[u8], at: usize| bytes[at..at + 1000].to_vec();
    let ranks = left.len() / 1000 / 600;
    let differ =
        |i: &usize| i / ranks % 97 != 96 && block(&left, i * 1000) != block(&closed, i * 1000);
    assert_eq!((0..left.len() / 1000).find(differ), None, "a block differs");
}

#[test]
fn files_on_servers() {
    let servers = striate_server::Embedded::start(3).unwrap();
    let program = compile("families.c");
    passes(&program, &[Path::new(&format!("{}/file", servers.url()))], &[]);
    let map = format!("/scratch/={}/", servers.url());
    let file = Path::new("/scratch/mapped");
    passes(&compile("blocks.c"), &[file], &[("STRIATE_MPIIO_MAP", &map)]);
}
