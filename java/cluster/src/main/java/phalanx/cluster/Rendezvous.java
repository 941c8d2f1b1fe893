package phalanx.cluster;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/**
 * A server where the processes of a job on one host learn each other's ports, like {@code mpjrun}. Each process sends
 * its two ports and its rank, and gets those of all.
 */
final class Rendezvous implements AutoCloseable {
    private static final int PATIENCE_MS = 5_000;

    private final int size;
    private final ServerSocket server;

    /** For this number of ranks, on a port of the loopback interface. */
    Rendezvous(int size) throws IOException {
        this.size = size;
        server = new ServerSocket(0, size, InetAddress.getLoopbackAddress());
    }

    /** The configuration that each process gets as its second argument. */
    String configuration() {
        return String.join(";", "#Number of Processes", Integer.toString(size), "#Protocol Switch Limit", "131072",
                "#Server Name", "127.0.0.1", "#Server Port", Integer.toString(server.getLocalPort()));
    }

    /** Waits for all processes, and sends them each other's ports. Ends with an exception when this is closed. */
    void meet() throws IOException {
        String[] peers = new String[size];
        List<Socket> sockets = new ArrayList<>();
        try {
            while (sockets.size() < size) {
                Socket socket = server.accept();
                String peer;
                int rank;
                try {
                    socket.setSoTimeout(PATIENCE_MS);
                    DataInputStream in = new DataInputStream(socket.getInputStream());
                    in.readUTF();
                    int write = in.readInt();
                    int read = in.readInt();
                    rank = in.readInt();
                    peer = ";127.0.0.1@" + read + "@" + write + "@" + rank + "@0";
                } catch (IOException e) {
                    // The connection is from another program.
                    socket.close();
                    continue;
                }
                if (rank < 0 || rank >= size || peers[rank] != null) {
                    socket.close();
                    continue;
                }
                peers[rank] = peer;
                sockets.add(socket);
            }
            String all = "#Peer Information" + String.join("", peers);
            for (Socket socket : sockets) {
                new DataOutputStream(socket.getOutputStream()).writeUTF(all);
            }
        } finally {
            for (Socket socket : sockets) {
                socket.close();
            }
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
