//! Filters as the text of an attribute: a master says by it how the chunks of a divided variable
//! are stored, since the scalar that represents the variable has none.

use crate::format::ChunkFilter;

/// Filters as words, in the order of writing: `shuffle deflate:4`.
pub(super) fn filters_to_text(filters: &[ChunkFilter]) -> String {
    let word = |filter: &ChunkFilter| match filter {
        ChunkFilter::Shuffle => "shuffle".to_owned(),
        ChunkFilter::Fletcher32 => "fletcher32".to_owned(),
        ChunkFilter::Deflate(level) => format!("deflate:{level}"),
        ChunkFilter::Zstd(level) => format!("zstd:{level}"),
        ChunkFilter::Other(id) => format!("filter:{id}"),
    };
    filters.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The filters that a text names; `None` if it is not such a text.
pub(super) fn filters_from_text(text: &str) -> Option<Vec<ChunkFilter>> {
    let filter = |word: &str| {
        Some(match word.split_once(':') {
            None if word == "shuffle" => ChunkFilter::Shuffle,
            None if word == "fletcher32" => ChunkFilter::Fletcher32,
            Some(("deflate", level)) => ChunkFilter::Deflate(level.parse().ok()?),
            Some(("zstd", level)) => ChunkFilter::Zstd(level.parse().ok()?),
            Some(("filter", id)) => ChunkFilter::Other(id.parse().ok()?),
            _ => return None,
        })
    };
    text.split_ascii_whitespace().map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_come_back_from_their_text() {
        let filters = [
            ChunkFilter::Shuffle,
            ChunkFilter::Deflate(4),
            ChunkFilter::Zstd(3),
            ChunkFilter::Other(307),
            ChunkFilter::Fletcher32,
        ];
        assert_eq!(filters_from_text(&filters_to_text(&filters)), Some(filters.to_vec()));
        for wrong in ["deflate", "deflate:x", "shuffle:1", "szip:3"] {
            assert_eq!(filters_from_text(wrong), None, "{wrong}");
        }
    }
}
