//! A headless Chromium, told what to do over its pipe of DevTools messages.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A browser with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    folder: PathBuf,
    session: Option<String>,
    last_id: u64,
}

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|file| file.is_file())
}

impl Browser {
    /// Opens a page, or says that there is no browser.
    pub(crate) fn open(test: &str, url: &str) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: no browser ({}) is installed", NAMES.join(", "));
            return None;
        };
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let [to, from] = ["to", "from"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status().expect("mkfifo runs");
        assert!(made.success());
        // It reads messages from descriptor 3 and writes them to descriptor 4.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$TO\" 4>\"$FROM\""])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .env("TO", &to)
            .env("FROM", &from)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a browser starts");
        let to = File::options().write(true).open(to).expect("the pipe opens");
        let from = BufReader::new(File::open(from).expect("the pipe opens"));
        let mut browser = Self { child, to, from, folder, session: None, last_id: 0 };
        let target = browser.call("Target.createTarget", json!({"url": url}))["targetId"].clone();
        let session = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        Some(browser)
    }

    /// Calls a method, and waits for what it returns.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).expect("the browser answers");
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let mut answer: Value = serde_json::from_slice(&bytes).expect("messages are JSON");
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, expression: &str) {
        for _ in 0..400 {
            if self.value(&format!("Boolean({expression})")) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let page = self.value("document.body.innerText");
        panic!("{expression} within twenty seconds; the page shows {page}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
