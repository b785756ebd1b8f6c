//! The Model Context Protocol over standard input and output: JSON-RPC 2.0, a message a line.

use std::io::{BufRead, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::{Judge, Task};
use crate::Ending;
use crate::failure::Failure;
use crate::host;

/// The version that is answered to clients of others.
const VERSION: &str = "2025-06-18";

pub(super) fn serve(judge: &Judge) -> Result<Ending, Failure> {
    let failed = |error: std::io::Error| Failure::run(format!("standard streams: {error}"));
    for line in host::stdin().lock().lines() {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            continue;
        }
        if let Some(answer) = answer(judge, &line) {
            let mut stdout = host::stdout().lock();
            writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).map_err(failed)?;
        }
    }
    Ok(Ending::Clean)
}

/// The answer to a message; notifications have none.
fn answer(judge: &Judge, line: &str) -> Option<Value> {
    let error = |id: Value, code: i32, message: String| {
        Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
    };
    let message: Value = match serde_json::from_str(line) {
        Ok(message) => message,
        Err(reason) => return error(Value::Null, -32700, reason.to_string()),
    };
    let id = message.get("id")?.clone();
    let params = &message["params"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": VERSION,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "warpfold", "version": env!("CARGO_PKG_VERSION")},
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({"tools": [tool()]}),
        Some("tools/call") if params["name"] == "judge" => called(judge, &params["arguments"]),
        Some("tools/call") => return error(id, -32602, format!("no tool is called {}", params["name"])),
        Some(other) => return error(id, -32601, format!("no method is called {other}")),
        None => return error(id, -32600, "a method is expected".to_owned()),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn tool() -> Value {
    json!({
        "name": "judge",
        "description": "Runs a GPU kernel on a virtual GPU beside its reference, on hidden sizes and values: right or \
                        wrong by element, races, bad addresses, uninitialised reads, tricks, counters, a predicted time.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "a task file, TOML or JSON"},
                "task": {"type": "object", "description": "a task: ptx or kernel, grid, block, sizes, args, reference"},
            },
        },
    })
}

fn called(judge: &Judge, arguments: &Value) -> Value {
    let verdict = match (arguments["path"].as_str(), arguments.get("task")) {
        (Some(path), None) => {
            let path = Path::new(path);
            Task::read(path).and_then(|task| judge.judged(&task, path.parent().unwrap_or(Path::new(""))))
        }
        (None, Some(task)) => Task::of(task.clone()).and_then(|task| judge.judged(&task, Path::new(""))),
        _ => Err(Failure::usage("either `path` or `task` is needed")),
    };
    let (text, is_error) = match verdict {
        Ok(verdict) => (verdict.to_string(), false),
        Err(failure) => (failure.to_string(), true),
    };
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}
