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
    assert_eq!(page.value("messages[1].content"), first);
    let note = page.value("document.querySelector('.note').textContent");
    assert!(
        note.as_str().is_some_and(|note| note.contains(" tok/s, first after ") && note.contains("seed 4")),
        "{note}"
    );
    // The conversation goes on with what was said.
    say(&mut page, "<b>more</b>");
    page.wait_for("document.querySelectorAll('.note').length === 2");
    let second = ask(json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": first},
        {"role": "user", "content": "<b>more</b>"}]));
    assert_eq!(page.value("messages[3].content"), second);
    assert_eq!(page.value("document.querySelectorAll('.turn b').length"), 0, "what is said is text");
    // Again, with another text, and kept by the browser.
    let press = |page: &mut Browser, text: &str| {
        let click = format!(
            "[...document.querySelectorAll('.turn button, .note button')].filter(b => b.textContent === {text:?}).at(-1).click()"
        );
        page.value(&click);
    };
    press(&mut page, "Regenerate");
    page.wait_for("document.querySelectorAll('.note').length === 2 && !running");
    assert_eq!(page.value("messages[3].content"), second);
    page.value("window.isOld = true; location.reload()");
    page.wait_for("!window.isOld && document.readyState === 'complete' && at('model').textContent === 'scripted' && messages.length === 4");
    assert_eq!(page.value("document.querySelectorAll('.turn').length"), 4);
    page.value("at('seed').value = 4; at('tokens').value = 30; at('temperature').value = 1");
    press(&mut page, "Edit");
    assert_eq!(page.value("at('prompt').value"), "<b>more</b>");
    say(&mut page, "less");
    page.wait_for("messages.length === 4 && messages[2].content === 'less' && !running");
    // Others are kept beside it.
    page.value("at('new').click()");
    assert_eq!(page.value("[messages.length, at('chats').options.length]"), json!([0, 2]));
    page.value("at('chats').value = 1; at('chats').dispatchEvent(new Event('change'))");
    assert_eq!(page.value("messages.length"), 4);
    reads_markdown(&mut page);
    shows_reasoning_and_calls(&mut page);
    // All that can be used has a name.
    let nameless = "[...document.querySelectorAll('button, input, select, textarea')].filter(e => \
        !(e.textContent.trim() && e.tagName === 'BUTTON') && !e.labels?.length && !e.ariaLabel).length";
    assert_eq!(page.value(nameless), 0);
    // Nothing is wider than a telephone.
    page.call(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 340, "height": 640, "deviceScaleFactor": 1, "mobile": true}),
    );
    assert_eq!(page.value("document.documentElement.scrollWidth <= 340 && talk.scrollWidth <= 340"), true);
    page.call("Emulation.clearDeviceMetricsOverride", json!({}));
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

/// Markdown becomes elements, and nothing that is said becomes a script or an attribute.
fn reads_markdown(page: &mut Browser) {
    for (text, html) in [
        ("a **b** *c* `d<e>` ~~f~~", "<p>a <strong>b</strong> <em>c</em> <code>d&lt;e&gt;</code> <s>f</s></p>"),
        ("# T\n- a\n- b\n  1. c", "<h1>T</h1><ul><li>a</li><li><p>b</p><ol><li>c</li></ol></li></ul>"),
        ("> q\n\n---", "<blockquote><p>q</p></blockquote><hr>"),
        ("[a](javascript:x) <img onerror=x>", "<p>[a](javascript:x) &lt;img onerror=x&gt;</p>"),
        (
            "a|b\n-|-\n1|<i>",
            "<div class=\"scroll\"><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>&lt;i&gt;</td></tr></table></div>",
        ),
        (
            "```rust\nlet a = `1`;\n```",
            "<div class=\"block\"><pre tabindex=\"0\" aria-label=\"rust\"><code>let a = `1`;</code></pre>\
            <button type=\"button\">Copy</button></div>",
        ),
    ] {
        let shown = page.value(&format!(
            "(() => {{ const d = make('div'); d.append(markdown({text:?})); return d.innerHTML; }})()"
        ));
        assert_eq!(shown, html, "{text}");
    }
    let link = "markdown('[a](https:\u{2f}/x \"y) [b](https:\u{2f}/b.example)').querySelectorAll('a')";
    assert_eq!(page.value(&format!("[{link}.length, {link}[0].rel]")), json!([1, "noopener noreferrer"]));
    // Marks without an end take no time.
    page.value("markdown('*'.repeat(20000) + '['.repeat(20000) + '\\n' + '>'.repeat(20000) + '`'.repeat(9999))");
}

/// Reasoning is folded, and a call asks for its result.
fn shows_reasoning_and_calls(page: &mut Browser) {
    let call = json!({"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{\"days\": 1}"}});
    let answer = json!({"role": "assistant", "content": "So", "reasoning_content": "hm", "tool_calls": [call]});
    page.value(&format!("at('new').click(); messages.push({{role: 'user', content: 'Hi'}}, {answer}); show()"));
    let shown = "[document.querySelector('.thought').open, document.querySelector('.answer .call').textContent, \
        document.querySelectorAll('.turn.call input').length]";
    assert_eq!(page.value(shown), json!([false, "calls weather({\"days\": 1})", 1]));
}

#[test]
fn an_answer_is_stopped_in_a_browser() {
    let (model, word) = Gated::new();
    let site = Site::with(options(), model, config());
    // Dropped before the site, which waits for the model.
    let word = word;
    let Some(mut page) = browser("stop", &site) else { return };
    say(&mut page, "Hi");
    page.wait_for("at('send').disabled");
    (0..3).for_each(|_| word.send(()).expect("the model waits"));
    page.wait_for("document.querySelector('.answer')?.textContent");
    // By Escape, and then by Clear, which forgets what was said, too.
    page.call("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": "Escape", "code": "Escape"}));
    page.wait_for("!at('send').disabled && document.querySelector('.note')?.textContent.includes('stopped')");
    site.step_until_idle(&word);
    say(&mut page, "More");
    (0..3).for_each(|_| word.send(()).expect("the model waits"));
    page.wait_for("running && [...document.querySelectorAll('.answer')].at(-1).textContent");
    page.value("at('clear').click()");
    page.wait_for("!at('send').disabled");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(page.value("[messages.length, talk.children.length]"), json!([0, 0]));
    site.step_until_idle(&word);
    drop(word);
    drop(page);
    assert_eq!(site.end().aborted, 2);
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
