//! A server of pages: the runs that are kept, their reports, and what runs now.
//!
//! It reads, and the one act that it knows, to end a run as Ctrl-C does, is off unless whoever
//! starts it allows it. Who may ask is decided in `gate.rs`, before anything else happens.
//!
//! Source of the events: HTML Standard, section 9.2, server-sent events.

mod gate;
mod library;
mod live;
mod pages;
mod route;
pub mod untrusted;

use crate::fault::{Doing, Fault};
use crate::finding::foreign;
use crate::lab::turn::{self, Owner};
use crate::lab::{self, exclusive};
use crate::ledger::{Ledger, RunState};
use crate::report::{export, html};
use futures_util::stream;
use gate::{Refusal, Secret};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use library::{Library, RunForm};
use live::{CourseCache, Rest};
use route::Route;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surtax_instrument::clock::{self, monotonic_raw};
use surtax_instrument::quantity::Nanoseconds;
use tokio::sync::Semaphore;

/// Connections at one time; more wait.
const CONNECTIONS_MAX: usize = 512;

/// Time in which a request must be there whole.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of a request's head, at most.
const HEAD_MAX_BYTES: usize = 16 << 10;

/// Between two looks at what runs.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Longest silence of an event stream: by then whoever is gone is noticed.
const SILENT_FOR: Nanoseconds = Nanoseconds(15_000_000_000);

/// After a connection that could not be taken.
const TAKE_AGAIN: Duration = Duration::from_millis(100);

type Body = BoxBody<Bytes, Infallible>;

/// Question of what is served to whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and port.
    pub listen: SocketAddr,
    /// Folders of the runs, the first for new ones.
    pub directories: Vec<PathBuf>,
    /// True if whoever has the address may end a run.
    pub may_stop: bool,
}

/// A server that listens, and answers nobody yet.
pub struct PageServer {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<Service>,
}

struct Service {
    secret: Secret,
    library: Library,
    courses: CourseCache,
    may_stop: bool,
    /// Surtaxes that were asked to end a run, by its file.
    asked: Mutex<HashMap<PathBuf, Owner>>,
}

impl PageServer {
    /// Listens at an address, with a secret of its own.
    ///
    /// # Errors
    /// The user's: the address is taken or not this machine's.
    pub fn bind(settings: &Settings) -> Result<Self, Fault> {
        let listen = settings.listen;
        let listener = TcpListener::bind(listen).map_err(|error| {
            let is_taken = error.kind() == ErrorKind::AddrInUse;
            let whose = is_taken.then(|| lab::listener(listen.port())).flatten();
            let whose = whose.map_or_else(String::new, |whose| format!(", by {whose}"));
            Fault::user(format!("cannot listen at {listen}: {error}{whose}"))
                .hint("name another address or port: `--listen 127.0.0.1:0` takes any that is free")
        })?;
        let service = Service {
            secret: Secret::new(exclusive::unguessable()?),
            library: Library::new(settings.directories.clone()),
            courses: CourseCache::default(),
            may_stop: settings.may_stop,
            asked: Mutex::default(),
        };
        let address = listener.local_addr().doing("see at which port it listens")?;
        Ok(Self { listener, address, service: Arc::new(service) })
    }

    /// The address to open, with its secret.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.service.secret.text)
    }

    /// Answers until the process ends.
    ///
    /// # Errors
    /// The machine's: there is no event loop to be had.
    pub fn run(self) -> Result<Infallible, Fault> {
        self.listener.set_nonblocking(true).doing("listen without waiting")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.doing("start the server")?.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener);
            take_all(&listener.doing("listen for connections")?, &self.service).await
        })
    }
}

async fn take_all(
    listener: &tokio::net::TcpListener,
    service: &Arc<Service>,
) -> Result<Infallible, Fault> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(TAKE_AGAIN).await;
            continue;
        };
        let service = Arc::clone(service);
        tokio::spawn(async move {
            let answered = service_fn(move |request| {
                let service = Arc::clone(&service);
                async move { Ok::<_, Infallible>(answer(&request, &service).await) }
            });
            // Whoever breaks off gets no answer; there is nobody to tell.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_WITHIN)
                .max_buf_size(HEAD_MAX_BYTES)
                .serve_connection(TokioIo::new(connection), answered)
                .await;
            drop(place);
        });
    }
}

/// Answers a request.
async fn answer(request: &Request<Incoming>, service: &Arc<Service>) -> Response<Body> {
    let path =
        match gate::admit(request.method(), request.uri(), request.headers(), &service.secret) {
            Ok(path) => path,
            Err(refusal) => return refused(refusal),
        };
    let root = format!("/{}/", service.secret.text);
    let no = |status, title, why: &str, remedy: Option<&str>| {
        page(status, pages::refused(title, why, remedy, &root))
    };
    let Some(route) = Route::of(path, request.uri().query().unwrap_or_default()) else {
        return no(StatusCode::NOT_FOUND, "Nothing is here", "", None);
    };
    if !route.is_asked_by(request.method()) {
        return refused(Refusal::Method);
    }
    if route.is_act() && !service.may_stop {
        let remedy = "start the server with `--allow-stop`";
        let why = "nobody may end a run here";
        return no(StatusCode::FORBIDDEN, "Not allowed", why, Some(remedy));
    }
    let at_work = Arc::clone(service);
    let done = tokio::task::spawn_blocking(move || at_work.answer(&route)).await;
    match done {
        Ok(Ok(Answered::Events(path))) => events(Arc::clone(service), path),
        Ok(Ok(Answered::Page(text))) => page(StatusCode::OK, text),
        Ok(Ok(Answered::Json(text))) => sent(StatusCode::OK, "application/json", text),
        Ok(Ok(Answered::Done)) => there("./"),
        Ok(Ok(Answered::NoRun(name))) => {
            let why = format!("there is no run `{name}`");
            no(StatusCode::NOT_FOUND, "No such run", &why, None)
        }
        Ok(Err(fault)) => {
            let (status, hint) = (StatusCode::UNPROCESSABLE_ENTITY, fault.hint.as_deref());
            no(status, "This cannot be shown", &fault.message, hint)
        }
        Err(_) => {
            let (status, why) = (StatusCode::INTERNAL_SERVER_ERROR, "surtax has a bug here");
            no(status, "This cannot be shown", why, None)
        }
    }
}

enum Answered {
    Page(library::Text),
    Json(library::Text),
    Events(PathBuf),
    Done,
    NoRun(String),
}

impl Service {
    /// Does what was asked for, on a thread that may wait.
    fn answer(&self, route: &Route) -> Result<Answered, Fault> {
        let library = &self.library;
        let of_run = |name: &str, act: &dyn Fn(&Path) -> Result<Answered, Fault>| {
            let path = library.path(name)?;
            path.map_or_else(|| Ok(Answered::NoRun(name.into())), |path| act(&path))
        };
        match route {
            Route::List => {
                let rows = library.rows()?;
                Ok(Answered::Page(pages::list(&rows, clock::wall()).into()))
            }
            Route::Run(name) => of_run(name, &|path| self.run(name, path).map(Answered::Page)),
            Route::Answer(name) => of_run(name, &|path| {
                let now = self.courses.now(library, path, Rest::Planned);
                let is_running = now.is_ok_and(|it| it.is_running);
                library.page(path, RunForm::Json, is_running, export::json).map(Answered::Json)
            }),
            Route::Events(name) => of_run(name, &|path| Ok(Answered::Events(path.into()))),
            Route::Stop(name) => of_run(name, &|path| self.stop(name, path)),
            Route::History(name) => of_run(name, &|path| {
                let (found, notes) = library.history(path)?;
                Ok(Answered::Page(pages::history(&found, &notes, name).into()))
            }),
            Route::Diff { before, after } => of_run(before, &|one| {
                of_run(after, &|other| {
                    let found = library.diff(one, other)?;
                    Ok(Answered::Page(pages::diff(&found, before, after).into()))
                })
            }),
        }
    }

    /// The report of a run, below what runs now.
    fn run(&self, name: &str, path: &Path) -> Result<library::Text, Fault> {
        let rest = self.rest(path);
        let now = self.courses.now(&self.library, path, rest).ok();
        let is_running = now.as_ref().is_some_and(|it| it.is_running);
        let stop = match (self.may_stop, rest) {
            (true, Rest::Planned) => pages::Stop::Allowed,
            (false, _) | (true, Rest::ThisTrial) => pages::Stop::NotOffered,
        };
        self.library.page(path, RunForm::Html, is_running, |findings| {
            // What was seen before the findings were read may be over by now.
            let now = now.as_ref().filter(|_| findings.run.state == RunState::Running.word());
            html::served(findings, &pages::above(name, now, stop))
        })
    }

    /// Tells whether who works on a run was asked to end it. Whoever goes on with it later was not.
    fn rest(&self, path: &Path) -> Rest {
        let asked = lock(&self.asked).get(path).cloned();
        let is_it = |asked: Owner| turn::owner(path).is_ok_and(|owner| owner == Some(asked));
        if asked.is_some_and(is_it) { Rest::ThisTrial } else { Rest::Planned }
    }

    /// Asks whoever works on a run to end it when the running trial has ended.
    fn stop(&self, name: &str, path: &Path) -> Result<Answered, Fault> {
        if let Some(owner) = turn::end(path)? {
            lock(&self.asked).insert(path.into(), owner);
            self.library.forget(path);
            self.courses.forget(path);
            return Ok(Answered::Done);
        }
        let state = self.library.read(path, Ledger::run)?.state;
        Err(match state == RunState::Running {
            true => Fault::user(format!(
                "who works on the run `{name}` cannot be seen from here: it is another user's to \
                 end, or just begins"
            )),
            false => Fault::user(format!("no surtax works on the run `{name}`")),
        })
    }
}

/// Tells what runs now whenever that is another, until nothing runs.
fn events(service: Arc<Service>, path: PathBuf) -> Response<Body> {
    let first =
        EventStream { service, path, last: String::new(), at: monotonic_raw(), is_over: false };
    let told = stream::unfold(first, |mut told| async {
        if told.is_over {
            return None;
        }
        let text = told.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), told))
    });
    let mut response = Response::new(StreamBody::new(told).boxed());
    head(response.headers_mut(), "text/event-stream");
    response
}

/// Events that one who listens was told so far.
struct EventStream {
    service: Arc<Service>,
    path: PathBuf,
    last: String,
    at: Nanoseconds,
    is_over: bool,
}

impl EventStream {
    /// The next event, or a comment so that the other side is known to be there.
    async fn next(&mut self) -> Option<String> {
        loop {
            let (service, path) = (Arc::clone(&self.service), self.path.clone());
            let look = move || {
                let rest = service.rest(&path);
                service.courses.now(&service.library, &path, rest)
            };
            let now = match tokio::task::spawn_blocking(look).await.ok()? {
                Ok(now) => now,
                Err(fault) => {
                    self.is_over = true;
                    let why = serde_json::to_string(&foreign::line(&fault.message)).ok()?;
                    return Some(format!("event: fault\ndata: {why}\n\n"));
                }
            };
            let text = serde_json::to_string(&now).ok()?;
            self.is_over = !now.is_running;
            if text != self.last {
                let event = format!("data: {text}\n\n");
                (self.last, self.at) = (text, monotonic_raw());
                return Some(event);
            }
            if monotonic_raw().since(self.at) >= SILENT_FOR {
                self.at = monotonic_raw();
                return Some(String::from(":\n\n"));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Refuses a request in few words: whoever it is need not know more.
fn refused(refusal: Refusal) -> Response<Body> {
    let (status, text) = match refusal {
        Refusal::Host => (StatusCode::FORBIDDEN, "name this machine by its address\n"),
        Refusal::Secret => (
            StatusCode::NOT_FOUND,
            "nothing is here: open the address that `surtax serve` printed\n",
        ),
        Refusal::Origin => (StatusCode::FORBIDDEN, "another page asked for this\n"),
        Refusal::Method => (StatusCode::METHOD_NOT_ALLOWED, "this can only be looked at\n"),
    };
    let mut response = sent(status, "text/plain; charset=utf-8", text);
    // Whoever asks again and reads nothing must not keep a connection.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn page(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    sent(status, "text/html; charset=utf-8", text)
}

/// Leads a browser that has done something to what it should see.
fn there(place: &'static str) -> Response<Body> {
    let mut response = sent(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(place));
    response
}

fn sent(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    head(response.headers_mut(), kind);
    response
}

/// Says of every answer: what it is, that it is kept nowhere, and that no other page may show it.
fn head(headers: &mut header::HeaderMap, kind: &'static str) {
    let said = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in said {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// A thread that panicked left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
