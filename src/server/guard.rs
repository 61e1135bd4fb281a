//! The checks of every request: its host, its origin, who sends it, and the type of its body.
//!
//! Invariant: what a page of another origin can make a browser send is refused before it reaches an operation. The host
//! stops names that were rebound to this address; the origin stops writes of other pages.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::Shared;
use super::door::Session;
use super::failure::Failure;
use crate::ops::inside::persons_only_at;

/// The path where a browser begins and ends its session. A one-time token is its own proof.
pub(super) const SESSION: &str = "/api/session";

/// The longest time that a write waits for others.
const QUEUED: Duration = Duration::from_secs(10);

/// The header with the key of a session.
const KEY: &str = "aynig-key";

/// The beginning of the subprotocol with it.
const PROTOCOL: &str = "aynig.";

/// Lets a request through, or answers it.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    // This endpoint needs no session. Its handler checks the token before it looks for a process.
    let is_beginning = request.uri().path() == SESSION && *request.method() == Method::POST;
    let checked = match check(&shared, &request) {
        Ok(()) if is_write(&request) && !is_beginning => persons_only(peer).await,
        checked => checked,
    };
    if let Err(failure) = checked {
        return with_headers(failure.into_response());
    }
    // Without a session nobody can hold the place of a write, by a body that does not come.
    let is_counted = is_write(&request) && !is_beginning;
    let _place = match is_counted.then(|| timeout(QUEUED, shared.writes.acquire())) {
        None => None,
        Some(place) => match place.await {
            Ok(place) => place.ok(),
            Err(_) => return with_headers(busy().into_response()),
        },
    };
    with_headers(next.run(request).await)
}

fn busy() -> Failure {
    let message = "many requests are under way already; this one was not begun, and nothing was changed";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
        .hint("try again; `aynig doctor` checks whether the remote answers")
}

/// The two ends of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) peer: SocketAddr,
    pub(super) own: SocketAddr,
    /// Its place among the connections, until the last clone is dropped.
    pub(super) _place: Arc<OwnedSemaphorePermit>,
}

/// Refuses a write of an agent: it may read the token, as it runs with the account of its user.
pub(super) async fn persons_only(ends: Option<Peer>) -> Result<(), Failure> {
    let refused = |why: String| Failure::new(StatusCode::FORBIDDEN, "persons_only", why);
    let Some(Peer { peer, own, .. }) = ends else {
        return Err(refused("the other end of this connection is unknown; nothing was changed".to_owned()));
    };
    let looked = tokio::task::spawn_blocking(move || persons_only_at(peer, own)).await;
    match looked {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.hints.into_iter().fold(refused(error.message), Failure::hint)),
        Err(_) => {
            Err(refused("the other end of this connection was not found; nothing was changed".to_owned()))
        }
    }
}

fn is_write(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

fn check(shared: &Shared, request: &Request) -> Result<(), Failure> {
    let (headers, path) = (request.headers(), request.uri().path());
    let host = host(headers).ok_or_else(|| wrong_host("none, or several"))?;
    let target = request.uri().authority().map_or(host, Authority::as_str);
    for named in [host, target] {
        if !is_own(named, shared.address.port(), shared.is_remote()) {
            return Err(wrong_host(named));
        }
    }
    let is_stream = path == "/ws";
    let is_bearer = bearer(headers).is_some_and(|token| shared.door.is_token(token));
    let writes = is_write(request);
    if writes || is_stream {
        same_origin(headers, host, is_stream && !is_bearer)?;
    }
    if !path.starts_with("/api") && !is_stream {
        return Ok(());
    }
    if path == SESSION && *request.method() == Method::POST {
        return json_body(headers);
    }
    let is_session =
        || sessions(headers, &shared.door.cookie).any(|session| shared.door.is_session(&session));
    if !is_bearer && !is_session() {
        return Err(Failure::new(StatusCode::UNAUTHORIZED, "no_session", "this needs a session or a token")
            .hint("`aynig serve --url` prints a link that begins a session; a script sends `Authorization: Bearer TOKEN`"));
    }
    if writes { json_body(headers) } else { Ok(()) }
}

/// The one `Host` of a request.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::HOST).iter();
    all.next().filter(|_| all.next().is_none())?.to_str().ok()
}

fn wrong_host(host: &str) -> Failure {
    let host: String = host.chars().take(80).collect();
    Failure::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", format!("this server is not {host:?}"))
        .hint("use the address that `aynig serve` printed")
}

/// Whether a `Host` names this server. Only an address can be meant from outside: a name could be anybody's.
fn is_own(host: &str, port: u16, is_remote: bool) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, given)) if !given.ends_with(']') => (name, given.parse::<u16>().ok()),
        _ => (host, Some(80)),
    };
    let plain = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let is_here = match plain.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || is_remote,
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    is_here && given == Some(port)
}

/// Refuses a request that a page of another origin made. A program names no origin.
fn same_origin(headers: &HeaderMap, host: &str, must_name: bool) -> Result<(), Failure> {
    let cross = |why: String| {
        Err(Failure::new(StatusCode::FORBIDDEN, "cross_site", why)
            .hint("only the page of this server and programs may do that"))
    };
    match headers.get(header::ORIGIN) {
        Some(origin) if origin.to_str().is_ok_and(|origin| is_origin(origin, host)) => return Ok(()),
        Some(origin) => {
            let origin: String = String::from_utf8_lossy(origin.as_bytes()).chars().take(80).collect();
            return cross(format!("the origin {origin:?} is another one"));
        }
        None if must_name => return cross("the request names no origin".to_owned()),
        None => {}
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => cross("the request is from another site".to_owned()),
    }
}

fn is_origin(origin: &str, host: &str) -> bool {
    origin.strip_prefix("http://").is_some_and(|own| own.eq_ignore_ascii_case(host))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// The secrets that a request has: its key with each cookie `name`. A page of another port can set more of that name.
pub(super) fn sessions(headers: &HeaderMap, name: &str) -> impl Iterator<Item = Session> {
    let key = match headers.get(KEY) {
        Some(key) => key.to_str().ok(),
        None => protocol(headers).and_then(|asked| asked.strip_prefix(PROTOCOL)),
    };
    key.into_iter().flat_map(move |key| {
        cookies(headers, name).map(|cookie| Session { cookie: cookie.to_owned(), key: key.to_owned() })
    })
}

/// The subprotocol with the key. A page can set no header of a WebSocket but this one.
pub(super) fn protocol(headers: &HeaderMap) -> Option<&str> {
    let asked = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    asked.starts_with(PROTOCOL).then_some(asked)
}

fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).filter_map(move |pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}

/// Refuses a body that is not called JSON. A form of another page cannot call it so.
fn json_body(headers: &HeaderMap) -> Result<(), Failure> {
    let length = headers.get(header::CONTENT_LENGTH);
    let is_empty =
        length.is_none_or(|length| length == "0") && !headers.contains_key(header::TRANSFER_ENCODING);
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if is_empty || kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        "the body is sent as something else than JSON",
    )
    .hint("send `Content-Type: application/json`"))
}

/// The headers of all answers. An answer may have a stricter policy of its own.
fn with_headers(mut response: Response) -> Response {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_of_this_server() {
        for (host, remote, own) in [
            ("127.0.0.1:4173", false, true),
            ("localhost:4173", false, true),
            ("LOCALHOST:4173", false, true),
            ("[::1]:4173", false, true),
            ("127.0.0.1", false, false),
            ("127.0.0.1:80", false, false),
            ("evil.example:4173", false, false),
            ("evil.example:4173", true, false),
            ("localhost.evil.example:4173", true, false),
            ("127.0.0.1.evil.example:4173", true, false),
            ("10.0.0.7:4173", false, false),
            ("10.0.0.7:4173", true, true),
            ("[::1]", false, false),
            ("", true, false),
            (":4173", true, false),
            ("127.0.0.1:4173:4173", true, false),
        ] {
            assert_eq!(is_own(host, 4173, remote), own, "{host} {remote}");
        }
        assert!(is_own("127.0.0.1", 80, false), "the port of http is not written");
    }

    #[test]
    fn a_page_of_another_origin_writes_nothing() {
        let host = "127.0.0.1:4173";
        for (headers, must_name, allowed) in [
            (&[][..], false, true),
            (&[], true, false),
            (&[("origin", "http://127.0.0.1:4173")], true, true),
            (&[("origin", "http://localhost:4173")], false, false),
            (&[("origin", "https://127.0.0.1:4173")], false, false),
            (&[("origin", "http://127.0.0.1:9")], false, false),
            (&[("origin", "null")], false, false),
            (&[("sec-fetch-site", "same-origin")], false, true),
            (&[("sec-fetch-site", "none")], false, true),
            (&[("sec-fetch-site", "same-site")], false, false),
            (&[("sec-fetch-site", "cross-site")], false, false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(same_origin(&map, host, must_name).is_ok(), allowed, "{headers:?} {must_name}");
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; aynig-x=2 ;aynig-xy=3"));
        headers.append(header::COOKIE, HeaderValue::from_static("b=4; a=5"));
        for (name, values) in [("a", &["1", "5"][..]), ("aynig-x", &["2"]), ("b", &["4"]), ("aynig", &[])] {
            assert_eq!(cookies(&headers, name).collect::<Vec<_>>(), values, "{name}");
        }
    }
}
