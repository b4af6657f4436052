//! [`S3Bucket`]: requests to the bucket of a URL, with an end to every wait.
//!
//! The library underneath is asynchronous. Its tasks run on two threads of a runtime that all
//! buckets of the process share; callers wait for them. Requests that fail in passing (5xx, broken
//! connections) are repeated by the library until the patience is over. A server that says nothing
//! at all ends the call a little later.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{BackoffConfig, ClientOptions, ObjectMeta, ObjectStoreExt, RetryConfig};
use tokio::runtime::Runtime;

use super::failure::translate;
use super::listing::UploadListing;
use super::{ObjectInfo, S3Error, S3Url, UnfinishedUpload};
use crate::error::{Cause, Operation, StoreError};

/// What the slowest useful connection brings in a second: how much longer large transfers may take.
const SLOWEST: u64 = 256 << 10;

/// Where requests go if the environment names no endpoint.
const AMAZON: &str = "Amazon S3";

/// The runtime; none if the system allows no threads.
static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name("striate-s3").enable_all().build().ok()
});

/// A bucket, as the environment says how to reach it.
#[derive(Debug)]
pub struct S3Bucket {
    pub(super) client: AmazonS3,
    /// For requests that the library does not know.
    plain: HttpClient,
    name: String,
    endpoint: String,
    region: String,
    patience: Duration,
}

impl S3Bucket {
    /// The bucket of a URL; connections are shared by all that ask for it with the same
    /// environment.
    pub fn shared(url: &S3Url) -> Result<Arc<Self>, StoreError> {
        static BUCKETS: LazyLock<Mutex<SharedBuckets>> = LazyLock::new(Mutex::default);
        let key = (url.bucket.clone(), environment());
        let mut buckets = BUCKETS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        let patience = crate::remote::patience_from_environment().map_err(|error| {
            let error = S3Error::Settings(error.to_string());
            StoreError::new(Operation::Open, url.to_string(), Cause::Objects(error))
        })?;
        let bucket = Arc::new(Self::new(&url.bucket, &key.1, patience)?);
        buckets.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    /// A bucket, reached as these variables say instead of those of the environment.
    pub fn new(
        name: &str,
        variables: &[(String, String)],
        patience: Duration,
    ) -> Result<Self, StoreError> {
        Self::connect(name, variables, patience).map_err(|error| {
            StoreError::new(Operation::Open, format!("s3://{name}"), Cause::Objects(error))
        })
    }

    fn connect(
        name: &str,
        variables: &[(String, String)],
        patience: Duration,
    ) -> Result<Self, S3Error> {
        // The cryptography of TLS; an earlier choice of the program stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
        let plain_http =
            endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        // Retries are given up before the wait for all attempts ends, so that the reason is known.
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(50),
                max_backoff: Duration::from_secs(2).min(patience / 8),
                base: 2.0,
            },
            max_retries: 1000,
            retry_timeout: patience * 3 / 4,
        };
        let options = ClientOptions::new()
            .with_connect_timeout(patience.min(Duration::from_secs(5)))
            .with_timeout_disabled()
            .with_http1_only()
            .with_allow_http(plain_http);
        let plain = ReqwestConnector::default().connect(&options);
        let client =
            builder.with_bucket_name(name).with_client_options(options).with_retry(retry).build();
        let settings = |error: object_store::Error| S3Error::Settings(error.to_string());
        Ok(Self {
            client: client.map_err(settings)?,
            plain: plain.map_err(settings)?,
            name: name.to_owned(),
            endpoint: endpoint.unwrap_or_else(|| AMAZON.to_owned()),
            // As the library has it.
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            patience,
        })
    }

    /// Where requests go.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn url(&self, key: &str) -> S3Url {
        S3Url { bucket: self.name.clone(), key: key.to_owned() }
    }

    /// Waits for a request that moves `bytes`.
    pub(super) fn wait<T>(
        &self,
        operation: Operation,
        key: &str,
        bytes: u64,
        request: impl Future<Output = Result<T, S3Error>>,
    ) -> Result<T, StoreError> {
        let failed =
            |error| StoreError::new(operation, self.url(key).to_string(), Cause::Objects(error));
        let Some(runtime) = &*RUNTIME else {
            return Err(failed(S3Error::Failed("the system allows no threads for it".into())));
        };
        let limit = self.patience + Duration::from_secs(bytes / SLOWEST);
        let timed = runtime.block_on(async { tokio::time::timeout(limit, request).await });
        timed.unwrap_or(Err(S3Error::TimedOut(limit))).map_err(failed)
    }

    /// An error of the library.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(super) fn failure(&self, error: object_store::Error) -> S3Error {
        translate(&error, &self.endpoint)
    }

    /// The size and version of an object.
    pub fn head(&self, key: &str) -> Result<ObjectInfo, StoreError> {
        self.wait(Operation::Open, key, 0, async {
            match self.client.head(&path(key)?).await {
                Ok(meta) => Ok(info(meta)),
                Err(error) => Err(self.missing(self.failure(error)).await),
            }
        })
    }

    /// Whether an error is due to the bucket. The library does not say so, and a server says it
    /// only where it answers with a text.
    pub(super) async fn missing(&self, error: S3Error) -> S3Error {
        if !matches!(error, S3Error::NoKey | S3Error::Failed(_)) {
            return error;
        }
        match self.plain_request(http::Method::HEAD, Vec::new()).await {
            Ok((404, _)) => S3Error::NoBucket(self.name.clone()),
            Ok((401 | 403, _)) if matches!(error, S3Error::Failed(_)) => {
                S3Error::Denied("403 Forbidden".into())
            }
            _ => error,
        }
    }

    /// A request to the bucket that the library does not know: the status and the text of the
    /// reply.
    async fn plain_request(
        &self,
        method: http::Method,
        query: Vec<(String, String)>,
    ) -> Result<(u16, String), S3Error> {
        let failure = |error| self.failure(error);
        // Of a signed address only the address is used: not all servers read the signature there.
        let (whole, limit) = (Path::default(), self.patience);
        let mut address =
            self.client.signed_url(method.clone(), &whole, limit).await.map_err(failure)?;
        address.set_query(None);
        if !query.is_empty() {
            address.query_pairs_mut().extend_pairs(query);
        }
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() =
            address.as_str().parse().map_err(|_| S3Error::Failed("the URL is too long".into()))?;
        let credential = self.client.credentials().get_credential().await.map_err(failure)?;
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .try_authorize(&mut request, None)
            .map_err(failure)?;
        let unreachable = |error: object_store::client::HttpError| S3Error::Unreachable {
            endpoint: self.endpoint.clone(),
            reason: super::failure::innermost(&error),
        };
        let reply = self.plain.execute(request).await.map_err(unreachable)?;
        let status = reply.status().as_u16();
        let body = reply.into_body().bytes().await.map_err(unreachable)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The objects whose keys begin with `prefix`, in the order of their keys.
    pub fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, StoreError> {
        self.wait(Operation::List, prefix, 0, async {
            let mut objects = Vec::new();
            let mut token = None;
            loop {
                let page = self.page(Some(prefix), token.take()).await?;
                objects.extend(page.result.objects.into_iter().map(info));
                match page.page_token {
                    Some(next) => token = Some(next),
                    None => break,
                }
            }
            objects.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(objects)
        })
    }

    async fn page(
        &self,
        prefix: Option<&str>,
        page_token: Option<String>,
    ) -> Result<PaginatedListResult, S3Error> {
        let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
        match self.client.list_paginated(prefix, options).await {
            Ok(page) => Ok(page),
            Err(error) => Err(self.missing(self.failure(error)).await),
        }
    }

    /// Removes an object. One that does not exist is not an error: the servers do not say so.
    pub fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.wait(Operation::Remove, key, 0, async {
            self.client.delete(&path(key)?).await.map_err(|error| self.failure(error))
        })
    }

    /// Uploads that were begun and neither completed nor aborted, of keys that begin with `prefix`.
    pub fn unfinished(&self, prefix: &str) -> Result<Vec<UnfinishedUpload>, StoreError> {
        self.wait(Operation::List, prefix, 0, async {
            let mut found = Vec::new();
            let mut after: Option<(String, String)> = None;
            loop {
                // Not all servers take a prefix here, and unfinished uploads are few.
                let listing = self.uploads_after(after.take()).await?;
                found.extend(listing.uploads().filter(|upload| upload.key.starts_with(prefix)));
                match listing.next() {
                    Some(next) => after = Some(next),
                    None => return Ok(found),
                }
            }
        })
    }

    /// One page of uploads; the library does not know this request.
    async fn uploads_after(
        &self,
        after: Option<(String, String)>,
    ) -> Result<UploadListing, S3Error> {
        let mut query = vec![("uploads".to_owned(), String::new())];
        if let Some((key, id)) = after {
            query.push(("key-marker".into(), key));
            query.push(("upload-id-marker".into(), id));
        }
        let (status, text) = self.plain_request(http::Method::GET, query).await?;
        match status {
            200 => UploadListing::parse(&text),
            404 => Err(S3Error::NoBucket(self.name.clone())),
            401 | 403 => Err(S3Error::Denied(super::failure::code(&text))),
            _ => Err(S3Error::Failed(format!("{status}: {}", super::failure::code(&text)))),
        }
    }

    /// Removes the parts of an upload; it cannot be completed then.
    pub fn abort(&self, upload: &UnfinishedUpload) -> Result<(), StoreError> {
        self.wait(Operation::Remove, &upload.key, 0, self.abort_upload(&upload.key, &upload.id))
    }

    pub(super) async fn abort_upload(&self, key: &str, id: &str) -> Result<(), S3Error> {
        use object_store::multipart::MultipartStore;
        let aborted = self.client.abort_multipart(&path(key)?, &id.to_owned()).await;
        match aborted.map_err(|error| self.failure(error)) {
            // It was aborted already.
            Err(S3Error::NoKey) => Ok(()),
            other => other,
        }
    }
}

/// Variables by their names, sorted.
type Environment = Vec<(String, String)>;

/// By the name and the environment.
type SharedBuckets = HashMap<(String, Environment), Arc<S3Bucket>>;

/// What a client depends on: programs, and tests, may change it.
fn environment() -> Environment {
    let relevant = |name: &str| name.starts_with("AWS_") || name == "STRIATE_PATIENCE";
    let text = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut found: Vec<_> = text.filter(|(name, _)| relevant(name)).collect();
    found.sort();
    found
}

pub(super) fn path(key: &str) -> Result<Path, S3Error> {
    Path::parse(key).map_err(|error| S3Error::Settings(error.to_string()))
}

fn info(meta: ObjectMeta) -> ObjectInfo {
    ObjectInfo {
        key: meta.location.into(),
        len: meta.size,
        modified_ms: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
        etag: meta.e_tag,
    }
}
