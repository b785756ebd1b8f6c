//! A language model in a program: requests go to an engine on a thread of its own, and text comes
//! back as it is drawn.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use warpfold::{Device, Queue};
use warpfold_engine::service::{Options, Service};
use warpfold_engine::{Config, Engine, Request};
use warpfold_models::ModelFiles;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::from_env()?;
    println!("on {device}");
    // The model that is part of the library; `ModelFiles::open` takes a folder or a GGUF file.
    let files = ModelFiles::shipped()?;
    let model = files.load(&Queue::of(&device), files.dtype(), &mut |_, _| ())?;
    let tokenizer = Arc::new(files.into_tokenizer().ok_or("the model has no tokenizer")?);
    let engine = Engine::new(model, Config { num_blocks: 32, ..Config::default() })?.with_decode(tokenizer.clone());
    let service = Service::spawn(engine, Options::default());

    // Both run together, and no bit of either answer depends on that.
    let ask = |text: &str, seed| -> Result<_, Box<dyn Error>> {
        let prompt = tokenizer.encode(text)?;
        Ok(service.client().submit(Request { max_tokens: Some(16), seed: Some(seed), ..Request::new(prompt) }))
    };
    let openings = ["Once upon a time there was a king", "In the middle of the forest"];
    let streams = [ask(openings[0], 7)?, ask(openings[1], 8)?];
    for (opening, stream) in openings.into_iter().zip(streams) {
        print!("{opening}");
        for update in stream {
            print!("{}", update?.text);
            std::io::stdout().flush()?;
        }
        println!();
    }
    Ok(())
}
