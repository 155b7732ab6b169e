"""In a running process: the only home of clocks, threads and sockets."""
