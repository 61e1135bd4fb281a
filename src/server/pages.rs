//! The page: files in the program, and the policy under which a browser runs them.
//!
//! Invariant: the page gets everything from this server, and no text that comes from a run can become a program in it.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::failure::Failure;
use crate::git::objects::digest::Sha256;

/// The files.
#[derive(RustEmbed)]
#[folder = "src/server/web/"]
#[exclude = "vendor.sh"]
#[exclude = "vendor.lock"]
struct Files;

/// The beginning of the paths of libraries. They have versions, so their files never change.
const VENDOR: &str = "vendor/";

/// The one file that every screen begins with.
const INDEX: &str = "index.html";

/// The policy. The import map is the one script in the page itself.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let index = Files::get(INDEX).map(|file| file.data.into_owned()).unwrap_or_default();
    let index = String::from_utf8_lossy(&index).into_owned();
    let map =
        index.split_once("<script type=\"importmap\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let mut digest = Sha256::default();
    digest.update(map.map(|(map, _)| map).unwrap_or_default().as_bytes());
    let hash = STANDARD.encode(bytes_of(&digest.finish()));
    format!(
        "default-src 'none'; script-src 'self' 'sha256-{hash}'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types aynig dompurify"
    )
});

/// The bytes of a text of hexadecimal digits.
fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A file of the page. An address that names none is one of a screen.
pub(super) fn page(uri: &Uri, headers: &HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    match Files::get(path) {
        Some(file) => sent(path, &file, headers),
        None if path == "api" || path.starts_with("api/") || is_file => unknown(uri.path()).into_response(),
        None => match Files::get(INDEX) {
            Some(index) => sent(INDEX, &index, headers),
            None => unknown(uri.path()).into_response(),
        },
    }
}

/// The answer to an address that there is not.
pub(super) fn unknown(path: &str) -> Failure {
    let path: String = path.chars().take(80).collect();
    Failure::unknown(format!("there is no {path:?}")).hint("`GET /api/openapi.json` lists what there is")
}

fn sent(path: &str, file: &EmbeddedFile, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", STANDARD.encode(file.metadata.sha256_hash()));
    let lasts = if path.starts_with(VENDOR) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let all: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind_of(path))),
        (header::ETAG, value(&tag)),
        (header::CACHE_CONTROL, HeaderValue::from_static(lasts)),
        (header::CONTENT_SECURITY_POLICY, value(&POLICY)),
    ];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, all).into_response();
    }
    (all, file.data.clone().into_owned()).into_response()
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}
