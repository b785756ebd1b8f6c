//! The `async-openai` crate against a server: URL, key and model are the arguments.

use std::pin::Pin;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, ChatCompletionStreamOptions, CreateChatCompletionRequestArgs,
};
use async_openai::types::completions::CreateCompletionRequestArgs;
use futures_util::{Stream, StreamExt};

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, OpenAIError>> + Send>>;

async fn all<T>(mut stream: Events<T>) -> Result<Vec<T>, OpenAIError> {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item?);
    }
    Ok(items)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, model] = arguments.as_slice() else { return Err("URL, key and model are needed".into()) };
    let client = Client::with_config(OpenAIConfig::new().with_api_base(url).with_api_key(key));

    let models = client.models().list().await?;
    assert_eq!(models.data[0].id, *model);

    let chat = || {
        let mut request = CreateChatCompletionRequestArgs::default();
        let message = ChatCompletionRequestUserMessage::from("Hi");
        request.model(model).messages([message.into()]).max_completion_tokens(12_u32).seed(5_i64);
        request
    };
    let whole = client.chat().create(chat().build()?).await?;
    let options = ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None };
    let request = chat().stream(true).stream_options(options).build()?;
    let chunks = all(client.chat().create_stream(request).await?).await?;
    let choices = chunks.iter().flat_map(|chunk| &chunk.choices);
    let text: String = choices.filter_map(|choice| choice.delta.content.as_deref()).collect();
    assert_eq!(Some(text), whole.choices[0].message.content);
    // The second request finds the prompt in the cache, so that details differ.
    let streamed = chunks.last().and_then(|chunk| chunk.usage.as_ref()).map(|usage| usage.total_tokens);
    assert_eq!(streamed, whole.usage.as_ref().map(|usage| usage.total_tokens));

    let mut request = CreateCompletionRequestArgs::default();
    request.model(model).prompt("the quick").max_tokens(9_u32).seed(5_i64).logprobs(2_u8);
    let whole = client.completions().create(request.build()?).await?;
    let tokens = whole.choices[0].logprobs.as_ref().map(|logprobs| logprobs.tokens.len());
    assert_eq!(tokens, whole.usage.map(|usage| usage.completion_tokens as usize));
    let chunks = all(client.completions().create_stream(request.stream(true).build()?).await?).await?;
    let text: String = chunks.iter().map(|chunk| chunk.choices[0].text.as_str()).collect();
    assert_eq!(text, whole.choices[0].text);

    match client.chat().create(chat().temperature(900.0_f32).build()?).await {
        Err(OpenAIError::ApiError(error)) => assert!(error.to_string().contains("temperature"), "{error}"),
        other => return Err(format!("it is too hot: {other:?}").into()),
    }
    println!("all right");
    Ok(())
}
