//! The page and its parts, compiled in: whoever has the program has the page, and no part comes from anywhere else.
//!
//! What is in it concerns nobody but is no secret: all data comes from the API, to operators alone.

use std::{collections::HashMap, sync::LazyLock};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, CacheControl, CacheDirective, EntityTag, Header, IfNoneMatch},
    web::{self, ServiceConfig},
};
use chassis::problem;
use sha2::{Digest, Sha256};

/// Files of `services/console/page`, with their paths there.
macro_rules! parts {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../page/", $path)).as_slice())),*]
    };
}

const PAGE: &str = "index.html";

const PARTS: &[(&str, &[u8])] = parts![
    "index.html",
    "icon.svg",
    "theme.js",
    "main.js",
    "session.js",
    "live.js",
    "hops.js",
    "headline.js",
    "status.js",
    "api.js",
    "dom.js",
    "format.js",
    "icons.js",
    "parts.js",
    "chart.js",
    "dialog.js",
    "toasts.js",
    "views/map.js",
    "views/map-cards.js",
    "views/map-lines.js",
    "views/map-stores.js",
    "views/map-panels.js",
    "views/map-tables.js",
    "views/orders.js",
    "views/orders-detail.js",
    "views/orders-place.js",
    "views/order-states.js",
    "views/rules.js",
    "views/rules-compose.js",
    "views/rules-editor.js",
    "views/rules-version.js",
    "views/rules-diff.js",
    "views/version-states.js",
    "views/switches.js",
    "views/reviews.js",
    "views/faults.js",
    "views/faults-form.js",
    "css/base.css",
    "css/shell.css",
    "css/parts.css",
    "css/forms.css",
    "css/map.css",
    "css/views.css",
];

struct Part {
    kind: &'static str,
    tag: EntityTag,
    body: &'static [u8],
}

static BY_PATH: LazyLock<HashMap<&'static str, Part>> = LazyLock::new(|| {
    let tag = |body: &[u8]| EntityTag::new_strong(hex::encode(Sha256::digest(body)));
    PARTS.iter().map(|(path, body)| (*path, Part { kind: kind(path), tag: tag(body), body })).collect()
});

/// Browsers are told to believe nothing else.
fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

pub(super) fn parts(config: &mut ServiceConfig) {
    config
        .service(web::resource("/").get(page).default_service(problem::only("GET")))
        .service(web::resource("/assets/{part:.*}").get(part).default_service(problem::only("GET")));
}

async fn page(request: HttpRequest) -> HttpResponse {
    serve(&request, PAGE).await
}

async fn part(request: HttpRequest, path: web::Path<String>) -> HttpResponse {
    serve(&request, &path).await
}

/// A browser keeps each part and asks whether it is still the one: after a new start of the console nobody sees half of
/// an old page and half of a new one.
async fn serve(request: &HttpRequest, path: &str) -> HttpResponse {
    let Some(part) = BY_PATH.get(path) else { return problem::unknown_path(request.clone()).await };
    let has_it = match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => request.headers().contains_key(header::IF_NONE_MATCH),
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|tag| tag.weak_eq(&part.tag)),
        Err(_) => false,
    };
    let mut answer = if has_it { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header(CacheControl(vec![CacheDirective::NoCache]))
        .insert_header((header::ETAG, part.tag.to_string()));
    if has_it { answer.finish() } else { answer.content_type(part.kind).body(part.body) }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;

    /// Every file below `page`, with its path there.
    fn files() -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found = BTreeSet::new();
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.insert(inside(&root, path));
                }
            }
        }
        found
    }

    fn inside(root: &Path, path: PathBuf) -> String {
        path.strip_prefix(root).unwrap().to_str().unwrap().to_owned()
    }

    fn texts(extension: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        let parts = PARTS.iter().filter(move |(path, _)| path.ends_with(extension));
        parts.map(|(path, body)| (*path, std::str::from_utf8(body).unwrap()))
    }

    #[test]
    fn every_file_of_the_page_is_a_part_with_a_kind_that_browsers_know() {
        let parts: BTreeSet<String> = PARTS.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(parts, files());
        assert!(BY_PATH.values().all(|part| part.kind != "application/octet-stream"));
    }

    #[test]
    fn what_the_page_names_is_there_and_comes_from_nowhere_else() {
        let (_, page) = PARTS[0];
        let page = std::str::from_utf8(page).unwrap();
        for name in ["href=\"", "src=\""] {
            for named in page.split(name).skip(1).filter_map(|rest| rest.split('"').next()) {
                let path = named.strip_prefix("/assets/");
                assert!(named.starts_with('#') || path.is_some_and(|path| BY_PATH.contains_key(path)), "{named}");
            }
        }
        for (path, text) in texts(".js") {
            let folder = Path::new(path).parent().unwrap();
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let named = line.rsplit('\'').nth(1).unwrap();
                let target = match named.strip_prefix("../") {
                    Some(above) => above.to_owned(),
                    None => folder.join(named.strip_prefix("./").unwrap()).to_str().unwrap().to_owned(),
                };
                assert!(BY_PATH.contains_key(target.as_str()), "{path}: {named}");
            }
        }
    }

    /// What the policy forbids would not work, and what reads markup would let data be markup.
    #[test]
    fn nothing_in_it_is_inline_or_reads_markup_and_no_file_is_long() {
        for (path, text) in texts(".js").chain(texts(".css")).chain(texts(".html")) {
            for never in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "<style",
                " style=",
                "http://",
                "https://",
            ] {
                let namespace = never == "http://" && path == "dom.js";
                assert!(namespace || path == "icon.svg" || !text.contains(never), "{path}: {never}");
            }
            assert!(text.lines().count() <= 250, "{path}");
        }
    }
}
