//! The job of a Darshan log, as a section of the page.

use std::fmt::Write as _;

use striate_darshan::Direction;

use super::html::{Column, TableCell, escaped, folded, number, section, table, word};
use crate::darshan::{DarshanLog, LayerRow};
use crate::formatting::{grouped, moment, part, percent, size, time};
use crate::model::Model;
use crate::summary;

/// The section.
pub(super) fn log(model: &Model) -> String {
    let Some(log) = model.darshan.as_deref() else { return String::new() };
    let content = [
        job(log),
        mounts(log),
        sharing(log),
        layers(log),
        order(log),
        mpi_io(log),
        sizes(log),
        common_sizes(log),
        ranks(log),
        layouts(log),
        modules(log),
    ];
    section("darshan", "Job", &summary::darshan_source(log), &content.concat())
}

fn count(value: u64) -> TableCell {
    TableCell::number(grouped(value), value)
}

fn bytes(value: u64) -> TableCell {
    TableCell::number(size(value), value)
}

fn span(value: u64) -> TableCell {
    TableCell::number(time(value), value)
}

fn path(path: &str) -> TableCell {
    TableCell::html(super::html::path(path)).by(path)
}

fn job(log: &DarshanLog) -> String {
    let facts = [
        ("Job", log.job.to_string()),
        ("User", log.user.to_string()),
        ("Ranks", grouped(log.ranks)),
        ("Run time", time(log.run_ns)),
        ("Start", moment(log.start_ns)),
        ("End", moment(log.end_ns)),
        ("Log format", format!("{}, {}", log.version, log.compression)),
    ];
    let mut list = String::new();
    for (name, value) in facts {
        let _ = write!(list, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    let mut more = String::new();
    for (key, value) in &log.metadata {
        let _ = write!(more, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(key), escaped(value));
    }
    let more = if more.is_empty() {
        String::new()
    } else {
        folded("Metadata of the log", &format!("<dl class=\"pairs\">{more}</dl>"))
    };
    format!(
        "<dl class=\"pairs\">{list}</dl><p>Executable: {}</p>{more}",
        super::html::path(&log.command)
    )
}

fn mounts(log: &DarshanLog) -> String {
    if log.mounts.is_empty() {
        return String::new();
    }
    let rows = log.mounts.iter().map(|row| {
        vec![
            path(&row.path),
            TableCell::text(&row.kind),
            count(row.files),
            bytes(row.bytes_read),
            bytes(row.bytes_written),
            span(row.time_ns),
        ]
    });
    let columns = [
        word("mount"),
        word("file system"),
        number("files"),
        number("read"),
        number("written"),
        number("time in calls"),
    ];
    let unused = match log.unused_mounts {
        0 => String::new(),
        more => format!("<p class=\"note\">{} more were mounted and not used.</p>", grouped(more)),
    };
    table("File systems", &columns, rows, false) + &unused
}

fn sharing(log: &DarshanLog) -> String {
    let rows = log.sharing.iter().map(|row| {
        vec![
            TableCell::text(&row.ranks),
            count(row.files),
            bytes(row.bytes_read),
            bytes(row.bytes_written),
        ]
    });
    let columns = [word("used by"), number("files"), number("read"), number("written")];
    table("Shared files and files of single ranks", &columns, rows, false)
}

fn layers(log: &DarshanLog) -> String {
    let rows = log.layers.iter().map(|row| {
        vec![
            TableCell::text(&row.layer),
            count(row.files),
            count(row.opens()),
            count(row.transfers(Direction::Read)),
            count(row.transfers(Direction::Write)),
            bytes(row.bytes(Direction::Read)),
            bytes(row.bytes(Direction::Write)),
            span(row.read_ns),
            span(row.write_ns),
            span(row.metadata_ns),
        ]
    });
    let columns = [
        word("layer"),
        number("files"),
        number("opens"),
        number("reads"),
        number("writes"),
        number("read"),
        number("written"),
        number("time reading"),
        number("writing"),
        number("metadata"),
    ];
    table("Counters by layer, all files and ranks together", &columns, rows, false)
}

/// How the accesses of the POSIX layer follow each other, which the others do not count.
fn order(log: &DarshanLog) -> String {
    let Some(row) = log.layer("POSIX") else { return String::new() };
    let directions = [("reads", Direction::Read), ("writes", Direction::Write)];
    let rows = directions.map(|(name, direction)| {
        let all = row.transfers(direction);
        let of = |kind: &str| {
            let value = row.counter(&format!("POSIX_{kind}_{}", name.to_uppercase()));
            [count(value), TableCell::number(percent(part(value, all)), value)]
        };
        let mut cells = vec![TableCell::text(name), count(all)];
        cells.extend(of("CONSEC"));
        cells.extend(of("SEQ"));
        cells
    });
    let columns = [
        word("POSIX"),
        number("accesses"),
        number("consecutive"),
        number("of all"),
        number("sequential"),
        number("of all"),
    ];
    let note = "<p class=\"note\">A consecutive access begins where the one before ended, a sequential one there or after it.</p>";
    table("Consecutive and sequential accesses", &columns, rows, false) + note
}

fn mpi_io(log: &DarshanLog) -> String {
    let Some(row) = log.layer("MPI-IO") else { return String::new() };
    let rows = ["INDEP", "COLL", "SPLIT", "NB"].map(|kind| {
        let words = match kind {
            "INDEP" => "independent",
            "COLL" => "collective",
            "SPLIT" => "split collective",
            _ => "nonblocking",
        };
        let value = |what: &str| {
            let name = format!("MPIIO_{kind}_{what}");
            if row.counters.contains_key(&name) {
                count(row.counter(&name))
            } else {
                TableCell::text("–")
            }
        };
        vec![TableCell::text(words), value("OPENS"), value("READS"), value("WRITES")]
    });
    let columns = [word("MPI-IO calls"), number("opens"), number("reads"), number("writes")];
    let more = format!(
        "<p class=\"note\">{} syncs, {} views, {} hints.</p>",
        grouped(row.counter("MPIIO_SYNCS")),
        grouped(row.counter("MPIIO_VIEWS")),
        grouped(row.counter("MPIIO_HINTS"))
    );
    table("MPI-IO counters", &columns, rows, false) + &more
}

fn with_sizes(log: &DarshanLog) -> impl Iterator<Item = &LayerRow> {
    log.layers.iter().filter(|row| row.sizes.iter().any(|size| size.reads + size.writes > 0))
}

fn sizes(log: &DarshanLog) -> String {
    let mut out = String::new();
    for layer in with_sizes(log) {
        let most = layer.sizes.iter().map(|row| row.reads.max(row.writes)).max().unwrap_or(1);
        let bar = |class: &str, calls: u64| {
            let width = part(calls, most) * 1000.0;
            TableCell::html(format!(
                "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect class=\"{class}\" width=\"{width:.1}\" height=\"10\"/></svg>"
            ))
        };
        let rows = layer.sizes.iter().filter(|row| row.reads + row.writes > 0).map(|row| {
            vec![
                TableCell::text(&row.bytes),
                count(row.reads),
                bar("read", row.reads),
                count(row.writes),
                bar("write", row.writes),
            ]
        });
        let columns = [word("bytes"), number("reads"), word(""), number("writes"), word("")];
        out.push_str(&table(&format!("Access sizes, {}", layer.layer), &columns, rows, false));
    }
    out
}

fn common_sizes(log: &DarshanLog) -> String {
    let rows = log.layers.iter().flat_map(|layer| {
        layer.common_sizes.iter().map(|(bytes_each, times)| {
            vec![
                TableCell::text(&layer.layer),
                bytes(*bytes_each),
                count(*bytes_each),
                count(*times),
            ]
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns: [Column; 4] =
        [word("layer"), number("access size"), number("bytes"), number("accesses")];
    table("Common access sizes", &columns, rows, false)
}

fn ranks(log: &DarshanLog) -> String {
    if log.ranks_of_files.is_empty() {
        return String::new();
    }
    let rows = log.ranks_of_files.iter().map(|row| {
        vec![
            path(&row.path),
            TableCell::text(&row.layer),
            TableCell::number(row.fastest.to_string(), row.fastest),
            span(row.fastest_ns),
            bytes(row.fastest_bytes),
            TableCell::number(row.slowest.to_string(), row.slowest),
            span(row.slowest_ns),
            bytes(row.slowest_bytes),
        ]
    });
    let columns = [
        word("shared file"),
        word("layer"),
        number("fastest rank"),
        number("its time"),
        number("its bytes"),
        number("slowest rank"),
        number("its time"),
        number("its bytes"),
    ];
    table("Fastest and slowest rank at shared files", &columns, rows, false)
}

fn layouts(log: &DarshanLog) -> String {
    if log.layouts.is_empty() {
        return String::new();
    }
    let rows = log.layouts.iter().map(|row| {
        let stripe = u64::try_from(row.stripe_size).unwrap_or(0);
        vec![
            TableCell::number(size(stripe), stripe),
            TableCell::number(row.stripe_count.to_string(), row.stripe_count),
            count(row.files),
            count(row.targets),
        ]
    });
    let columns =
        [number("stripe size"), number("stripes"), number("files"), number("storage targets")];
    table("Layouts on Lustre", &columns, rows, false)
}

fn modules(log: &DarshanLog) -> String {
    let rows = log.modules.iter().map(|row| {
        let note = match (row.read, row.partial) {
            (false, _) => "not read here",
            (true, true) => "partial",
            (true, false) => "",
        };
        vec![
            TableCell::text(&row.name),
            count(row.version.into()),
            count(row.records),
            TableCell::text(note),
        ]
    });
    let columns = [word("module"), number("version"), number("records"), word("")];
    folded("Modules in the log", &table("Modules in the log", &columns, rows, false))
}
