//! What control does for links that no connection of their own carries: a peer's transport asks ours to make the other end,
//! and to let go of it. Deliberately without a list of them: who has such ends is for the transport, which also bounds them.

use std::sync::Arc;

use pipeline_transports::control::{ErrorCode, Message};
use pipeline_transports::transport::{Asking, SessionId};
use pipeline_transports::{LinkId, Nanos, clock};

use super::session::Session;
use super::shared::Shared;

/// Has a transport of ours answer its counterpart. Only on sessions that the peer opened: whom we call makes no ends here.
pub(super) async fn answer(shared: &Arc<Shared>, session: &Session, transport: &str, body: &[u8]) -> Message {
    let Some(entry) = shared.world.transports.iter().find(|e| e.name == transport) else {
        let text = format_args!("transport `{transport}` is not declared here");
        return Message::error(ErrorCode::NOT_FOUND, text);
    };
    let limit = shared.settings.connect;
    let by = clock::now() + limit.as_nanos() as Nanos;
    let (peer, id, incarnation) = (session.peer.clone(), session.id, session.hello.incarnation);
    let asking = Asking { peer, session: id, incarnation };
    let answered = tokio::time::timeout(limit, entry.transport.answer(asking, body, by)).await;
    if session.has_ended() {
        // Whoever ended it may have let go before this was made.
        entry.transport.let_go(id, None).await;
    }
    match answered {
        Ok(Ok(body)) => Message::Exchanged(body),
        Ok(Err(error)) => Message::error(ErrorCode::UNSUPPORTED, error),
        Err(_) => {
            let text = format!("transport `{transport}` has not answered for {} ms", limit.as_millis());
            Message::error(ErrorCode::BUSY, text)
        }
    }
}

/// Has every transport let go of one link of a session, or of all; answers when nothing of them touches memory here.
pub(super) async fn let_go(shared: &Shared, session: SessionId, only: Option<LinkId>) {
    for entry in &shared.world.transports {
        entry.transport.let_go(session, only).await;
    }
}
