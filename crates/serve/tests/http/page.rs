//! The page at `/`, as a text and in a browser.

use crate::support::Site;

#[test]
fn the_page_is_one_file_that_fetches_nothing_from_elsewhere() {
    let site = Site::plain();
    let reply = site.get("/");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(reply.header("content-security-policy").is_some_and(|policy| policy.starts_with("default-src 'none'")));
    for foreign in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!reply.body.contains(foreign), "{foreign}");
    }
    site.end();
}
