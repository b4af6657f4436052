//! [`Client`]: a file system on servers, and how requests without data get their answers.
//!
//! All such requests take one way, [`Client::on_all`]: one to each of some servers, all sent before
//! the first answer is waited for, and again to those servers that could not be reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use striate_wire::{Reply, Request, Traffic};

use super::attempts::Attempts;
use super::error::{CallError, ServerError};
use super::lock::Renewal;
use super::options::{ClientOptions, OptionsError};
use super::pool::{Pool, PooledLink};
use super::url::{RemoteUrl, with_port};
use crate::error::{Cause, Operation, StoreError};

/// A file system on servers, by the address of its metadata server. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    address: Arc<str>,
    pool: Arc<Pool>,
    renewal: Arc<Renewal>,
    /// How often it tries, if not as often as its options say.
    attempts: u32,
}

/// The clients of [`Client::shared`].
static SHARED: Mutex<Option<HashMap<(String, bool), Client>>> = Mutex::new(None);

/// Options from the environment, for a URL.
fn options_for(url: &RemoteUrl) -> Result<ClientOptions, StoreError> {
    let failed = |error: OptionsError| {
        StoreError::new(Operation::Open, url.to_string(), Cause::Other(error.into()))
    };
    let mut options = ClientOptions::from_environment().map_err(failed)?;
    match (url.tls, &options.tls) {
        (true, None) => return Err(failed(OptionsError::NoAuthorities)),
        (true, Some(_)) => {}
        (false, _) => options.tls = None,
    }
    Ok(options)
}

/// Making one.
impl Client {
    /// A client of the metadata server at `address`, a `host` or `host:port`, which must answer.
    pub fn connect(address: &str, options: ClientOptions) -> Result<Self, StoreError> {
        let failed = |reason| StoreError::unsupported(Operation::Open, address, reason);
        let address = with_port(address).map_err(failed)?;
        let client = Self {
            address: address.as_str().into(),
            pool: Pool::new(options).map_err(|error| {
                StoreError::new(Operation::Open, address.clone(), Cause::Other(error.into()))
            })?,
            renewal: Renewal::new(),
            attempts: u32::MAX,
        };
        let server = client.identify(&address)?;
        if server.metadata {
            Ok(client)
        } else {
            let why = "it keeps no names of files; connect to the metadata server";
            Err(StoreError::unsupported(Operation::Open, client.url("").to_string(), why))
        }
    }

    /// The client of this process for the server of a URL, with options from the environment.
    pub fn shared(url: &RemoteUrl) -> Result<Self, StoreError> {
        let key = (url.address.clone(), url.tls);
        let known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.as_ref().and_then(|clients| clients.get(&key)) {
            return Ok(client.clone());
        }
        // While connecting, other threads may use their servers.
        drop(known);
        let client = Self::connect(&url.address, options_for(url)?)?;
        let mut known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let clients = known.get_or_insert_with(HashMap::new);
        Ok(clients.entry(key).or_insert(client).clone())
    }

    /// A client of its own for the server of a URL, which tries no more than so often: to find out
    /// about servers, rather than to use them.
    pub fn with_attempts(url: &RemoteUrl, attempts: u32) -> Result<Self, StoreError> {
        let options = ClientOptions { attempts, ..options_for(url)? };
        Self::connect(&url.address, options)
    }

    /// The same client, for what is not worth more than so many attempts.
    pub(super) fn brief(&self, attempts: u32) -> Self {
        Self { attempts, ..self.clone() }
    }

    /// The metadata server, as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How it connects, and how patient it is.
    pub fn options(&self) -> &ClientOptions {
        self.pool.options()
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> RemoteUrl {
        let path = path.strip_prefix('/').unwrap_or(path).to_owned();
        RemoteUrl { address: self.address.to_string(), path, tls: self.options().tls.is_some() }
    }

    /// What went over all connections of this client so far; what is under way may be missing.
    pub fn traffic(&self) -> Traffic {
        self.pool.traffic()
    }

    /// The connections, for requests with data.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) fn renewal(&self) -> &Arc<Renewal> {
        &self.renewal
    }
}

/// Asking.
impl Client {
    /// Asks the metadata server.
    pub(super) fn ask(&self, request: &Request) -> Result<Reply, ServerError> {
        self.ask_server(&self.address, request)
    }

    /// Asks one server.
    pub(super) fn ask_server(
        &self,
        address: &str,
        request: &Request,
    ) -> Result<Reply, ServerError> {
        let mut replies = self.on_all(&[address.to_owned()], |_| request.clone())?;
        Ok(replies.swap_remove(0))
    }

    /// Asks many servers at a time: number `i` of the addresses for `requests(i)`. Returns the
    /// replies in that order, or the error of the first that failed; the remaining servers were
    /// asked all the same.
    ///
    /// Servers that cannot be reached or are busy are asked again, unless the request was sent and
    /// must not be carried out twice.
    pub(super) fn on_all(
        &self,
        addresses: &[String],
        requests: impl Fn(usize) -> Request,
    ) -> Result<Vec<Reply>, ServerError> {
        let mut attempts = Attempts::up_to(self.attempts, self.options());
        let mut replies: Vec<Option<Reply>> = vec![None; addresses.len()];
        let mut open: Vec<Call> = (0..addresses.len()).map(Call::new).collect();
        while !open.is_empty() {
            for call in &mut open {
                call.send(&self.pool, &addresses[call.index], &requests(call.index), &attempts);
            }
            for call in &mut open {
                replies[call.index] = call.receive(&attempts);
            }
            open.retain(|call| call.failed.is_some());
            let at = |prospect| open.iter().position(|call| call.prospect() == Some(prospect));
            let given_up = match at(RetryPolicy::None) {
                None => at(RetryPolicy::Later).filter(|_| !attempts.again()),
                hopeless => hopeless,
            };
            if let Some(given_up) = given_up
                && let Call { index, failed: Some(failed), .. } = open.swap_remove(given_up)
            {
                return Err(ServerError::new(&addresses[index], failed.error, attempts.made()));
            }
        }
        Ok(replies.into_iter().flatten().collect())
    }
}

/// A request to one server, until it has its reply.
struct Call {
    /// Which of the servers.
    index: usize,
    repeatable: bool,
    under_way: Option<(PooledLink, u64)>,
    failed: Option<FailedAttempt>,
}

/// An attempt that failed.
struct FailedAttempt {
    error: CallError,
    prospect: RetryPolicy,
}

/// What can be hoped for after a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RetryPolicy {
    /// A new connection may do: the old one had ended unnoticed.
    Now,
    /// It may be better after a while.
    Later,
    /// Nothing.
    None,
}

impl Call {
    fn new(index: usize) -> Self {
        Self { index, repeatable: false, under_way: None, failed: None }
    }

    fn prospect(&self) -> Option<RetryPolicy> {
        self.failed.as_ref().map(|failed| failed.prospect)
    }

    fn send(&mut self, pool: &Arc<Pool>, address: &str, request: &Request, attempts: &Attempts) {
        self.repeatable = is_repeatable(request);
        let patience = attempts.patience();
        let taken = match self.failed.take() {
            None => pool.take(address, patience),
            // Other old connections are not to be trusted either.
            Some(_) => pool.connect(address, patience),
        };
        match taken {
            Err(error) => {
                let prospect =
                    if error.is_passing() { RetryPolicy::Later } else { RetryPolicy::None };
                self.failed = Some(FailedAttempt { error, prospect });
            }
            Ok(mut link) => match link.send(request) {
                Ok(id) => self.under_way = Some((link, id)),
                Err(error) => self.fail(&link, error),
            },
        }
    }

    fn receive(&mut self, attempts: &Attempts) -> Option<Reply> {
        let (mut link, id) = self.under_way.take()?;
        let received = link.set_patience(attempts.patience()).and_then(|()| link.receive(id));
        received.map_err(|error| self.fail(&link, error)).ok()
    }

    /// Over this link the request was sent, at least in part.
    fn fail(&mut self, link: &PooledLink, error: CallError) {
        let harmless = self.repeatable || error.is_refusal();
        let prospect = match () {
            () if harmless && link.is_reused() && error.is_end() => RetryPolicy::Now,
            () if harmless && error.is_passing() => RetryPolicy::Later,
            () => RetryPolicy::None,
        };
        self.failed = Some(FailedAttempt { error, prospect });
    }
}

/// Whether it does no harm if a server carries out the request twice.
fn is_repeatable(request: &Request) -> bool {
    !matches!(
        request,
        Request::Create { exclusive: true, .. }
            | Request::Rename { .. }
            | Request::Remove { .. }
            | Request::Lock { .. }
    )
}

/// The error of a reply that is none to what was asked.
pub(super) fn unexpected(address: &str, reply: &Reply, expected: &'static str) -> ServerError {
    let reply = format!("{reply:?}");
    let kind = reply.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let text = format!("the server replied '{kind}' where {expected} is due");
    ServerError::new(address, CallError::Protocol(text), 1)
}
