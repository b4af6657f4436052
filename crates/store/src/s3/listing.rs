//! [`UploadListing`]: the answer of a server that is asked for unfinished uploads.

use serde::Deserialize;

use super::{S3Error, UnfinishedUpload};

/// One page.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct UploadListing {
    upload: Vec<ListedUpload>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedUpload {
    key: String,
    upload_id: String,
    #[serde(default)]
    initiated: String,
}

impl UploadListing {
    pub(super) fn parse(text: &str) -> Result<Self, S3Error> {
        quick_xml::de::from_str(text)
            .map_err(|error| S3Error::Failed(format!("the list of uploads is malformed: {error}")))
    }

    pub(super) fn uploads(&self) -> impl Iterator<Item = UnfinishedUpload> + '_ {
        self.upload.iter().map(|upload| UnfinishedUpload {
            key: upload.key.clone(),
            id: upload.upload_id.clone(),
            begun: upload.initiated.clone(),
        })
    }

    /// Where the next page begins. A server that repeats a page does not make an endless loop: the
    /// wait for the list ends.
    pub(super) fn next(&self) -> Option<(String, String)> {
        let next = || (self.next_key_marker.clone(), self.next_upload_id_marker.clone());
        (self.is_truncated && !self.next_key_marker.is_empty()).then(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let page = "<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"x\"><Bucket>b</Bucket>\
            <IsTruncated>true</IsTruncated><NextKeyMarker>k2</NextKeyMarker><NextUploadIdMarker>i2\
            </NextUploadIdMarker><Upload><Key>k1</Key><UploadId>i1</UploadId><Initiated>then</Initiated>\
            <Owner><ID>o</ID></Owner></Upload><Upload><Key>k&amp;2</Key><UploadId>i2</UploadId></Upload>\
            </ListMultipartUploadsResult>";
        let listing = UploadListing::parse(page).unwrap();
        let uploads: Vec<_> = listing.uploads().map(|one| (one.key, one.id, one.begun)).collect();
        let texts = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(uploads, [texts("k1", "i1", "then"), texts("k&2", "i2", "")]);
        assert_eq!(listing.next(), Some(("k2".into(), "i2".into())));
        let empty = UploadListing::parse("<ListMultipartUploadsResult/>").unwrap();
        assert_eq!((empty.uploads().count(), empty.next()), (0, None));
        assert!(UploadListing::parse("<html>").is_err());
    }
}
