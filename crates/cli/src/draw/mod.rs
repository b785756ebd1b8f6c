//! `warpfold draw`: the pictures of the book, as SVG files.

mod batching;

use std::path::PathBuf;

use clap::Args;
use warpfold_device::{Device, Profile};
use warpfold_report::PICTURES;

use crate::failure::Failure;
use crate::host;
use crate::progress::Progress;
use crate::suggestion::did_you_mean;
use crate::{Ending, output};

/// Draws the pictures of the book as SVG files, from runs on the virtual GPU.
///
/// Each picture is drawn from what the program computes, so that it cannot be older than the
/// program. Exit codes: 0 done, 2 bad usage, 4 a run failed.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// A picture such as butterfly, any number of them; unless given all.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the pictures.
    #[arg(long, exclusive = true)]
    list: bool,
    /// The folder that the files go to.
    #[arg(short, long, value_name = "FOLDER", required_unless_present = "list")]
    output: Option<PathBuf>,
}

impl Draw {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let name = |file: &'static str| file.trim_end_matches(".svg");
        let all = || PICTURES.iter().map(|picture| picture.file).chain(batching::FILES);
        if self.list {
            let lines: String = all().map(|file| format!("{}\n", name(file))).collect();
            output::print(&lines)?;
            return Ok(Ending::Clean);
        }
        for asked in &self.names {
            if !all().any(|file| name(file) == asked) {
                let hint = did_you_mean(asked, all().map(name));
                return Err(Failure::usage(format!("no picture '{asked}': `warpfold draw --list` lists them{hint}")));
            }
        }
        let folder = self.output.clone().unwrap_or_default();
        host::create_dir_all(&folder)
            .map_err(|error| Failure::usage(format!("cannot make {}: {error}", folder.display())))?;
        let is_asked = |file: &'static str| self.names.is_empty() || self.names.iter().any(|asked| asked == name(file));
        let device = Device::virtual_gpu(Profile::H200);
        let (progress, mut num) = (Progress::new(), 0);
        let mut write = |file: &str, svg: String| {
            num += 1;
            let path = folder.join(file);
            host::write(&path, svg).map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
        };
        for picture in PICTURES.iter().filter(|picture| is_asked(picture.file)) {
            progress.begin(picture.file.to_owned());
            write(picture.file, picture.draw(&device)?)?;
        }
        for file in batching::FILES.into_iter().filter(|file| is_asked(file)) {
            progress.begin(file.to_owned());
            write(file, batching::draw(file)?)?;
        }
        progress.end();
        output::note(&format!("wrote {num} pictures to {}\n", folder.display()));
        Ok(Ending::Clean)
    }
}
