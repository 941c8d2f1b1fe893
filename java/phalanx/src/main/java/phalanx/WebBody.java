package phalanx;

import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow.Subscription;

/** Takes the body of an answer from {@code java.net.http}, and knows when something came last. */
final class WebBody implements BodySubscriber<byte[]> {
    private final CompletableFuture<byte[]> whole = new CompletableFuture<>();
    private final ServerBody body;
    private volatile long last = System.nanoTime();
    private Subscription subscription;

    WebBody(byte[] request) {
        this.body = new ServerBody(request);
    }

    /** How long nothing has come, in nanoseconds. */
    long silence() {
        return System.nanoTime() - last;
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return whole;
    }

    @Override
    public void onSubscribe(Subscription to) {
        last = System.nanoTime();
        subscription = to;
        to.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> come) {
        last = System.nanoTime();
        try {
            for (ByteBuffer each : come) {
                body.add(each, each.remaining());
            }
        } catch (IOException e) {
            subscription.cancel();
            onError(e);
        }
    }

    @Override
    public void onError(Throwable e) {
        body.wipe();
        whole.completeExceptionally(e);
    }

    @Override
    public void onComplete() {
        whole.complete(body.take());
    }
}
