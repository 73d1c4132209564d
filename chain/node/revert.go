package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

// A RevertError means that a contract was run and gave up, by itself or because
// it ran out of gas. It is an answer of the chain, and any other node gives the
// same one.
type RevertError struct {
	Reason string // what the node says; not to be relied on
	Data   []byte // what the contract returned: a selector and arguments, or nothing
}

func (e *RevertError) Error() string {
	return fmt.Sprintf("the contract gave up: %s", e.Reason)
}

// The codes that mean a revert beyond doubt: 3 in go-ethereum and those that
// follow it, -32015 in Nethermind and OpenEthereum.
const (
	codeReverted    = 3
	codeVMExecution = -32015
)

// halts are parts of the messages with which nodes report that execution ended
// in another way than by a return. A revert has no code of its own everywhere,
// and the others nowhere: they come as -32000 like every other trouble.
var halts = []string{
	"revert", "out of gas", "outofgas", "invalid opcode", "opcodenotfound", "invalidfeopcode", "invalid jump", "invalidjump",
	"stack underflow", "stackunderflow", "stack limit reached", "stackoverflow", "write protection", "return data out of bounds",
	"gas uint64 overflow", "max code size exceeded",
	"memoryoog", "memorylimitoog", "invalidoperandoog", "precompileoog", "reentrancysentryoog", "outofoffset",
}

// reverted returns err as a RevertError if it is one, and nil otherwise.
func reverted(err error) *RevertError {
	answer, ok := errors.AsType[rpc.Error](err)
	if !ok {
		return nil
	}
	text := strings.ToLower(answer.Error())
	known := answer.ErrorCode() == codeReverted || answer.ErrorCode() == codeVMExecution
	for _, halt := range halts {
		known = known || strings.Contains(text, halt)
	}
	if !known {
		return nil
	}
	revert := &RevertError{Reason: printable(answer.Error())}
	if with, ok := errors.AsType[rpc.DataError](err); ok {
		if data, ok := with.ErrorData().(string); ok {
			// Nethermind writes a word before the data. What is not hex stays out.
			revert.Data, _ = hexutil.Decode(strings.TrimPrefix(data, "Reverted "))
		}
	}
	return revert
}
