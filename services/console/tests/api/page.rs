//! The page itself.

use crate::desk::{Desk, body};

#[tokio::test]
async fn the_page_is_there_for_everybody_and_its_data_is_not() {
    let desk = Desk::open().await;
    let page = desk.app.get("/").send().await.unwrap();
    let header = |name: &str| page.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(page.status(), 200);
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert!(header("content-security-policy").starts_with("default-src 'self';"));
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(page.text().await.unwrap().contains("<title>Order console</title>"));
    body(desk.app.get("/v1/rules").send().await.unwrap(), 401).await;
}

#[tokio::test]
async fn a_part_that_a_browser_has_is_not_sent_again() {
    let desk = Desk::open().await;
    let first = desk.app.get("/assets/main.js").send().await.unwrap();
    assert_eq!((first.status().as_u16(), &first.headers()["cache-control"]), (200, &"no-cache".parse().unwrap()));
    let tag = first.headers()["etag"].clone();
    let again = desk.app.get("/assets/main.js").header("if-none-match", &tag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), &again.headers()["etag"]), (304, &tag));
    assert!(again.bytes().await.unwrap().is_empty());
    let of_another = desk.app.get("/assets/css/base.css").header("if-none-match", &tag).send().await.unwrap();
    assert_eq!(of_another.status(), 200);
    for path in ["/assets/", "/assets/nothing.js", "/assets/../Cargo.toml", "/assets/%2e%2e/Cargo.toml"] {
        assert_eq!(desk.app.get(path).send().await.unwrap().status(), 404, "{path}");
    }
    body(desk.app.client.post(desk.app.url("/")).send().await.unwrap(), 405).await;
}
