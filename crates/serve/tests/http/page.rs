//! The page at `/`, as a text and in a browser.

use serde_json::json;
use warpfold_serve::Options;

use crate::browser::Browser;
use crate::support::{Gated, Site, config, options};

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

fn browser(test: &str, site: &Site) -> Option<Browser> {
    let mut browser = Browser::open(test, &format!("http://{}/", site.address()))?;
    browser.wait_for(
        "document.URL !== 'about:blank' && document.readyState === 'complete' && at('model').textContent !== '…'",
    );
    Some(browser)
}

/// Writes a prompt and presses Enter.
fn say(browser: &mut Browser, prompt: &str) {
    browser.value(&format!("at('prompt').value = {prompt:?}; at('prompt').focus()"));
    for kind in ["keyDown", "keyUp"] {
        browser.call("Input.dispatchKeyEvent", json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r"}));
    }
}

#[test]
fn somebody_talks_to_the_model_in_a_browser() {
    let site = Site::plain();
    let Some(mut page) = browser("talk", &site) else { return };
    assert_eq!(page.value("at('model').textContent"), "scripted");
    page.value("at('seed').value = 4; at('tokens').value = 30; at('temperature').value = 1");
    say(&mut page, "Hi");
    page.wait_for("document.querySelector('.note')");
    let ask = |messages: serde_json::Value| {
        let body = json!({"messages": messages, "seed": 4, "max_tokens": 30, "temperature": 1});
        site.chat(&body).with(200)["choices"][0]["message"]["content"].clone()
    };
    let first = ask(json!([{"role": "user", "content": "Hi"}]));
    assert_eq!(page.value("document.querySelector('.answer').textContent"), first);
    // The conversation goes on with what was said.
    say(&mut page, "<b>more</b>");
    page.wait_for("document.querySelectorAll('.note').length === 2");
    let second = ask(json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": first},
        {"role": "user", "content": "<b>more</b>"}]));
    assert_eq!(page.value("document.querySelectorAll('.answer')[1].textContent"), second);
    assert_eq!(page.value("document.querySelectorAll('.turn b').length"), 0, "what is said is text");
    // A text is continued by completions.
    page.value("at('clear').click(); at('mode').value = 'text'");
    say(&mut page, "the quick");
    page.wait_for("document.querySelector('.note')");
    let body = json!({"prompt": "the quick", "seed": 4, "max_tokens": 30, "temperature": 1});
    assert_eq!(
        page.value("document.querySelector('.answer').textContent"),
        site.complete(&body).with(200)["choices"][0]["text"]
    );
    // Without a number it goes on for as long as there is room.
    page.value("at('clear').click(); at('tokens').value = ''");
    say(&mut page, "the quick");
    page.wait_for("document.querySelector('.note')");
    let body = json!({"prompt": "the quick", "seed": 4, "max_tokens": 240, "temperature": 1});
    let long = site.complete(&body).with(200)["choices"][0]["text"].as_str().expect("a text").to_owned();
    let shown = page.value("document.querySelector('.answer').textContent");
    assert!(shown.as_str().is_some_and(|shown| shown.starts_with(&long)));
    // What goes wrong is shown.
    page.value("at('tokens').value = 100000");
    say(&mut page, "the quick");
    page.wait_for("document.querySelector('.wrong')?.textContent.includes('maximum context length')");
    // It is light or dark, as the reader's system is.
    let colour = |page: &mut Browser, scheme: &str| {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        page.call("Emulation.setEmulatedMedia", json!({"features": features}));
        page.value("getComputedStyle(document.body).backgroundColor")
    };
    assert_ne!(colour(&mut page, "dark"), colour(&mut page, "light"));
    drop(page);
    site.end();
}

#[test]
fn an_answer_is_stopped_in_a_browser() {
    let (model, word) = Gated::new();
    let site = Site::with(options(), model, config());
    let Some(mut page) = browser("stop", &site) else { return };
    say(&mut page, "Hi");
    page.wait_for("at('send').disabled");
    (0..3).for_each(|_| word.send(()).expect("the model waits"));
    page.wait_for("document.querySelector('.answer')?.textContent");
    page.value("at('stop').click()");
    page.wait_for("!at('send').disabled");
    // Steps go on until the server has seen it.
    for _ in 0..100 {
        word.send(()).ok();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    drop(word);
    site.wait_for("the request is given up", |site| site.metric("vllm:num_requests_running") == 0.0);
    drop(page);
    assert_eq!(site.end().aborted, 1);
}

#[test]
fn the_page_asks_for_a_key_where_one_is_needed() {
    let site = Site::new(Options { keys: vec!["sesame".to_owned()], ..options() });
    let Some(mut page) = browser("key", &site) else { return };
    page.wait_for("!at('key-row').hidden");
    page.value("at('key').value = 'sesame'; at('key').dispatchEvent(new Event('change'))");
    page.wait_for("at('model').textContent === 'scripted'");
    say(&mut page, "Hi");
    page.wait_for("document.querySelector('.note:not(.wrong)')");
    drop(page);
    site.end();
}
