package classify

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// segments returns how many segments with data a connection has received, which a
// server can ask its system for: reads alone do not tell, as two segments that
// come close together are read as one.
func segments(c net.Conn) int {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { // a connection that is closed has no more to say
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int(info.Data_segs_in)
		}
	})
	return n
}
