/* Preloaded into a peer that cannot choose its congestion control: every TCP socket it makes gets the one named in
 * PEERS_CONGESTION. Accepted sockets inherit it from their listener. A refusal ends the process, because a comparison
 * under the wrong congestion control says nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int socket(int domain, int type, int protocol) {
  static int (*real)(int, int, int);
  if (!real) real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  int fd = real(domain, type, protocol);
  const char *name = getenv("PEERS_CONGESTION");
  int tcp = (domain == AF_INET || domain == AF_INET6) && (type & 15) == SOCK_STREAM &&
            (protocol == 0 || protocol == IPPROTO_TCP);
  if (fd >= 0 && name && tcp && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name))) {
    fprintf(stderr, "congestion control %s: %s\n", name, strerror(errno));
    _exit(71);
  }
  return fd;
}
