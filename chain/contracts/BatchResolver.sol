// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.24;

/// What EAS keeps of an attestation, and hands to the resolver of its schema.
struct Attestation {
    bytes32 uid;
    bytes32 schema;
    uint64 time;
    uint64 expirationTime;
    uint64 revocationTime;
    bytes32 refUID;
    address recipient;
    address attester;
    bool revocable;
    bytes data;
}

/// Lets EAS take the attestations of batches from one account, one after the other:
/// each has the number behind the last and names its root and its attestation. So a
/// transaction that is sent twice attests once, no batch is left out, and nobody
/// else says anything under the schema. It has no owner and cannot be changed.
contract BatchResolver {
    address public immutable eas;
    address public immutable attester;

    uint64 public lastBatch;
    bytes32 public lastRoot;
    bytes32 public lastUID;

    error NotEAS();
    error NotPayable();
    error NotAttester();
    error NotABatch();
    error NotTheNext();

    /// Batches go on behind the given one, which was attested elsewhere; both are zero
    /// if there was none.
    constructor(address eas_, address attester_, uint64 batch, bytes32 root) {
        eas = eas_;
        attester = attester_;
        lastBatch = batch;
        lastRoot = root;
    }

    modifier onlyEAS() {
        if (msg.sender != eas) revert NotEAS();
        if (msg.value != 0) revert NotPayable();
        _;
    }

    function isPayable() external pure returns (bool) {
        return false;
    }

    function attest(Attestation calldata a) external payable onlyEAS returns (bool) {
        accept(a);
        return true;
    }

    function multiAttest(Attestation[] calldata list, uint256[] calldata) external payable onlyEAS returns (bool) {
        for (uint256 i = 0; i < list.length; ++i) accept(list[i]);
        return true;
    }

    /// What is attested stays.
    function revoke(Attestation calldata) external payable onlyEAS returns (bool) {
        return false;
    }

    function multiRevoke(Attestation[] calldata, uint256[] calldata) external payable onlyEAS returns (bool) {
        return false;
    }

    function accept(Attestation calldata a) private {
        if (a.attester != attester) revert NotAttester();
        // EAS does not look at the data; a word for each field, and nothing behind them.
        if (a.data.length != 192 || a.expirationTime != 0 || a.revocable || a.recipient != address(0)) revert NotABatch();
        (bytes32 root, uint64 batch,, bytes32 previousRoot,,) =
            abi.decode(a.data, (bytes32, uint64, uint32, bytes32, uint64, bytes32));
        if (batch != lastBatch + 1 || previousRoot != lastRoot || a.refUID != lastUID) revert NotTheNext();
        lastBatch = batch;
        lastRoot = root;
        lastUID = a.uid;
    }
}
