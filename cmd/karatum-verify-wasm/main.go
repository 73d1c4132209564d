//go:build js && wasm

// Karatum-verify-wasm makes the checks of karatum-verify in a browser: it is the package
// domain/verify and no other check, for whoever reads a slot on its page.
//
// It puts one function into the global object of the JavaScript that runs it:
//
//	karatumVerifyShop(consent, day, shop, stream, bundle, seals)
//
// The first five are the answers of [verify.Answers] as they were served, each a
// Uint8Array; day and bundle may be null. Seals takes the version of a record in the stream of
// seals and returns a promise of the answer of GET /v1/ledger/streams/seal/{consent} that
// begins with it, or of null where there is none. What comes back is a promise of the
// report, which is the JSON text that GET /v1/mystery/shops/{id}/verify answers with, or
// of an Error with a sentence for people.
//
// The program itself asks nobody for anything, and knows no chain: what the log says of
// attestations it checks as the log says it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall/js"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

func main() {
	js.Global().Set("karatumVerifyShop", js.FuncOf(verifyShop))
	select {} // the functions of a program that has ended cannot be called
}

// verifyShop implements karatumVerifyShop.
func verifyShop(_ js.Value, args []js.Value) any {
	if len(args) != 6 {
		return rejected("karatumVerifyShop takes six arguments")
	}
	var a verify.Answers
	for i, into := range []*[]byte{&a.Consent, &a.Day, &a.Shop, &a.Stream, &a.Bundle} {
		var ok bool
		if *into, ok = bytesOf(args[i]); !ok {
			return rejected(fmt.Sprintf("argument %d is not a Uint8Array", i+1))
		}
	}
	seals := args[5]
	return promise(func() (string, error) {
		var err error
		if a.Seal, err = verify.SealOf(a, func(version uint64) ([]byte, error) { return firstItem(seals, version) }); err != nil {
			return "", err
		}
		report, err := verify.Shop(a)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(report)
		return string(text), err
	})
}

// firstItem returns the first record of a list that seals answers with, nil if there is
// none.
func firstItem(seals js.Value, version uint64) ([]byte, error) {
	answer, err := await(seals.Invoke(version))
	if err != nil {
		return nil, err
	}
	page, ok := bytesOf(answer)
	if !ok {
		return nil, errors.New("the answer about seals is not a Uint8Array")
	}
	if page == nil {
		return nil, nil
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(page, &list); err != nil {
		return nil, fmt.Errorf("the answer about seals cannot be read: %w: %w", err, domain.ErrInvalid)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return list.Items[0], nil
}

// bytesOf copies a Uint8Array; null gives nil.
func bytesOf(v js.Value) (data []byte, ok bool) {
	if v.IsNull() {
		return nil, true
	}
	if !v.InstanceOf(js.Global().Get("Uint8Array")) {
		return nil, false
	}
	data = make([]byte, v.Length())
	js.CopyBytesToGo(data, v)
	return data, true
}

// promise returns a promise of what work returns. It works beside the caller, whose
// promises could not be kept while it waits.
func promise(work func() (string, error)) js.Value {
	executor := js.FuncOf(func(_ js.Value, args []js.Value) any {
		resolve, reject := args[0], args[1]
		go func() {
			if text, err := work(); err != nil {
				reject.Invoke(js.Global().Get("Error").New(domain.Sentence(err)))
			} else {
				resolve.Invoke(text)
			}
		}()
		return nil
	})
	defer executor.Release()
	return js.Global().Get("Promise").New(executor)
}

func rejected(sentence string) js.Value {
	return js.Global().Get("Promise").Call("reject", js.Global().Get("Error").New(sentence))
}

// await waits for a promise.
func await(p js.Value) (js.Value, error) {
	type outcome struct {
		value js.Value
		err   error
	}
	done := make(chan outcome, 1)
	kept := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- outcome{value: args[0]}
		return nil
	})
	defer kept.Release()
	broken := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- outcome{err: errors.New(js.Global().Call("String", args[0]).String())}
		return nil
	})
	defer broken.Release()
	p.Call("then", kept, broken)
	o := <-done
	return o.value, o.err
}
