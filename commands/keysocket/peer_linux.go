package keysocket

import (
	"net"
	"syscall"
)

// peer returns the user id of the process that connected, as the kernel took it down
// then (SO_PEERCRED, see unix(7)).
func peer(c *net.UnixConn) (uid int, known bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var cred *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, false, err
	}
	if failed != nil {
		return 0, false, failed
	}
	return int(cred.Uid), true, nil
}
