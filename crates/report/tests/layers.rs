//! MPI-IO calls in reports: above the calls that they caused, and never counted twice.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod scenario;

use scenario::{CREATE, MS, Scenario, US};
use striate_report::text::Style;
use striate_report::{Model, page, text};
use striate_trace::layer::LayerFunction;

/// Ranks that write together: the first for all of them.
fn collective() -> Scenario {
    let mut scenario = Scenario::new();
    for rank in 0..4 {
        let mut program = scenario.program(Some(rank));
        let file = program.open("/data/out.nc", CREATE, 100 * US);
        program.within(LayerFunction::MpiWriteAtAll, &file, 1 << 20, |program| {
            // What ranks send each other is no call on files.
            program.think(6 * MS);
            if rank == 0 {
                program.write(&file, 0, 4 << 20, 4 * MS);
            } else {
                program.think(4 * MS);
            }
        });
        program.within(LayerFunction::MpiWriteAt, &file, 100, |program| {
            program.write(&file, 100 * u64::from(rank), 100, 50 * US);
        });
        program.write(&file, 9 << 20, 100, 50 * US);
        program.finish();
    }
    scenario
}

#[test]
fn what_is_beneath_is_told_of_functions_and_ranks() {
    let model = collective().model();
    let mpi_io = &model.mpi_io;
    assert_eq!((mpi_io.collective.calls, mpi_io.independent.calls), (4, 4));
    assert_eq!((mpi_io.collective.bytes_written, mpi_io.collective.time_ns), (4 << 20, 40 * MS));
    let beneath = &mpi_io.collective.beneath;
    assert_eq!((beneath.calls.write, beneath.time_ns.write), (1, 4 * MS));
    assert_eq!(beneath.bytes_written, 4 << 20);
    assert_eq!(mpi_io.independent.beneath.calls.all(), 4);
    // Calls on files count once: four opens, one large write, and two small ones of each.
    assert_eq!(model.totals.sums.calls.all(), 4 + 1 + 8);
    assert_eq!(mpi_io.functions[0].name, "MPI_File_write_at_all");
    assert!(mpi_io.functions[0].collective && !mpi_io.functions[1].collective);
    let ranks: Vec<_> = mpi_io.processes.iter().map(|row| row.rank).collect();
    assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3)]);
    let written = |rank: usize| mpi_io.processes[rank].collective.beneath.bytes_written;
    assert_eq!((written(0), written(3)), (4 << 20, 0));
    // A lane has the time in MPI-IO, of which that in calls is a part.
    for lane in &model.timeline.lanes {
        assert_eq!(lane.mpi_io.iter().sum::<u64>(), 10 * MS + 50 * US);
    }
    let json = serde_json::to_string(&model).unwrap();
    assert_eq!(serde_json::from_str::<Model>(&json).unwrap(), model);
}

#[test]
fn all_forms_have_a_section_of_them() {
    let model = collective().model();
    let text = text::render(&model, &Style { width: 120, ..Style::default() });
    assert!(text.contains("MPI-IO calls, and the calls beneath them\n"), "{text}");
    let line = text.lines().find(|line| line.contains("MPI_File_write_at_all")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[1..4], ["collective", "4", "0"], "{line}");
    assert!(text.contains("8 MPI-IO calls (4 collective, 4 independent)"), "{text}");
    assert!(text.contains("\n  MPI-IO  "), "{text}");
    let page = page::render(&model);
    assert!(page.contains("id=\"mpi-io\"") && page.contains("href=\"#mpi-io\""));
    assert!(page.contains("data-classes=\"mpi-io "), "a strip above the others");
    assert!(page.contains("<code>MPI_File_write_at_all</code>"));
}

#[test]
fn without_mpi_io_nothing_is_said_of_it() {
    let mut scenario = Scenario::new();
    scenario::good(&mut scenario, 2);
    let model = scenario.model();
    assert!(model.mpi_io.is_empty());
    assert!(!text::render(&model, &Style::default()).contains("MPI-IO"));
    assert!(!page::render(&model).contains("id=\"mpi-io\""));
    assert!(!serde_json::to_string(&model).unwrap().contains("mpi_io"));
}
